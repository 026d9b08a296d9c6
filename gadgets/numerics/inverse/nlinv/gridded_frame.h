// Gridding of frames for NLINV as their samples come, without a plan for each trajectory.
#pragma once

#include <cstdint>
#include <memory>

#include "gadgets/numerics/inverse/nlinv/convolution.h"
#include "gadgets/numerics/inverse/nlinv/nlinv.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"

namespace echotrain::numerics {

/// Adds samples, and their weights alone, to two grids: F^H W d, and the point spread function for the convolution. The
/// cost is that of the samples and of some transforms, for new and for known trajectories, and nothing waits for the
/// device. On CUDA, samples are added in no fixed order: results agree to rounding from run to run.
class GriddedFrame {
 public:
  /// accuracy: relative RMS error of both. Throws std::invalid_argument where it cannot be reached.
  GriddedFrame(Context& context, std::int64_t coils, const Shape& image, double accuracy);

  void clear();
  /// coordinates: [sample, 2], cycles/pixel of the image; a sample with NaN is dropped. data: [sample, coil]; weights:
  /// [sample], both where the context computes; host_weights: the same.
  void add(HostView<const double> coordinates, DeviceView<const cfloat> data, DeviceView<const float> weights,
           HostView<const float> host_weights);
  /// Ends a frame; call it once, after its last samples. The grids are used up. The result refers to this object, and
  /// is valid until clear().
  NlinvFrame finish();
  std::int64_t coils() const { return grid_.shape()[0]; }
  double weight() const { return weight_; }  ///< sum of the weights so far

 private:
  Context& context_;
  Shape image_;
  std::shared_ptr<const NufftPlan> plan_, spread_plan_;  // models of the plans for samples
  Array<cfloat> grid_, spread_grid_, right_, spread_;
  Array<double> power_;
  FrameConvolution convolution_;
  std::uint64_t number_;  // the number of this object
  double weight_ = 0;
};

}  // namespace echotrain::numerics
