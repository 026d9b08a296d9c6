// Convolution of weighted samples onto an oversampled Cartesian grid.
#pragma once

#include "gadgets/api/gadget.h"
#include "gadgets/shared/frame_gridder.h"

namespace echotrain {

/// Source: see gadgets/numerics/nufft/nufft.h.
class Gridding final : public Gadget<Samples, Grid> {
 public:
  using Options = GriddingOptions;
  static constexpr std::string_view kName = "gridding";
  static constexpr std::string_view kSummary =
      "Convolves weighted samples onto an oversampled Cartesian grid (Kaiser-Bessel kernel).";
  static Parameters<Options> parameters() { return gridding_parameters(); }
  static Delivery delivery(const Options& options) { return FrameGridder::delivery(options); }

  explicit Gridding(Options options) : gridder_(options) {}
  void start(const protocol::Header& header, Scan& scan) override { gridder_.start(header, scan); }
  void process(Samples&& samples, const Emit<Grid>& emit) override {
    if (auto gridded = gridder_.add(std::move(samples))) emit({gridded->frame, gridded->grid, gridded->plan});
  }

 private:
  FrameGridder gridder_;
};

}  // namespace echotrain
