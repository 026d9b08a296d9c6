// Gridding convolves weighted samples onto an oversampled Cartesian grid.
#pragma once

#include "gadgets/api/gadget.h"
#include "gadgets/shared/frame_gridder.h"

namespace echotrain {

/// Grids samples. Source: see gadgets/numerics/transforms/nufft/nufft.h.
template <class In>
class GriddingOf final : public Gadget<In, Grid> {
 public:
  using Options = GriddingOptions;
  static constexpr std::string_view kName = "gridding";
  static constexpr std::string_view kSummary =
      "Convolves weighted samples onto an oversampled Cartesian grid (Kaiser-Bessel kernel).";
  static Parameters<Options> parameters() { return gridding_parameters(); }
  static Delivery delivery(const Options& options) { return FrameGridder::delivery(options); }

  explicit GriddingOf(Options options) : gridder_(options) {}
  void start(const protocol::Header& header, Scan& scan) override { gridder_.start(header, scan, is_planes<In>); }
  void process(In&& samples, const Emit<Grid>& emit) override {
    const std::int64_t planes = planes_of(samples);
    if (auto gridded = gridder_.add(std::move(samples))) emit({gridded->frame, gridded->grid, gridded->plan, planes});
  }

 private:
  FrameGridder gridder_;
};

using Gridding = GriddingOf<Samples>;
using GriddingOfPlanes = GriddingOf<PlaneSamples>;

}  // namespace echotrain
