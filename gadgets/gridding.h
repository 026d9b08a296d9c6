// Convolution of weighted samples onto an oversampled Cartesian grid.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gadgets/gadget.h"
#include "gadgets/measurement.h"
#include "gadgets/numerics/nufft.h"

namespace echotrain {

/// The image's voxels are those of the header's recon space. The plan (tiles, kernel weights) depends on the trajectory
/// only and is reused by every frame that repeats it. Source: see gadgets/numerics/nufft.h.
class Gridding final : public Gadget<Samples, Grid> {
 public:
  struct Options {
    std::int64_t dimensions = 2;
    std::int64_t kernel_width = 5;
    double oversampling = 1.5;
  };
  static constexpr std::string_view kName = "gridding";
  static constexpr std::string_view kSummary =
      "Convolves weighted samples onto an oversampled Cartesian grid (Kaiser-Bessel kernel).";
  static Parameters<Options> parameters();

  explicit Gridding(Options options) : options_(options) {}
  void start(const protocol::Header& header, Session& session) override;
  void process(Samples&& samples, const Emit<Grid>& emit) override;

 private:
  struct Cached {
    std::uint64_t digest;
    std::uint16_t encoding;
    std::shared_ptr<const numerics::NufftPlan> plan;
  };
  std::shared_ptr<const numerics::NufftPlan> plan(const SamplePositions& positions, std::uint16_t encoding);

  Options options_;
  Session* session_ = nullptr;
  std::vector<ImageGeometry> geometries_;
  std::vector<Cached> plans_;  // most recent first, bounded
};

}  // namespace echotrain
