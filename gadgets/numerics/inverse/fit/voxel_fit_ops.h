// The fit on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/inverse/fit/voxel_fit.h"

namespace echotrain::numerics {

/// A fit as its loops read it. Images are sorted by `at`.
struct VoxelFitWork {
  static constexpr int kMost = VoxelFit::kMostImages;
  const cfloat* images;  ///< [image, voxel]
  std::int64_t voxels;
  float* maps;
  /// A grid point's curve, less its mean where there is an offset, of length 1: [point, image].
  const float* grid;
  /// cos and sin of 2 pi f at, times a decay: [frequency, 2, image]
  const float* waves;
  const float* floor;  ///< [1], or null
  int count, points, frequencies;
  std::int32_t place[kMost];  ///< the image
  float at[kMost];
  float root[kMost];  ///< of the weight
  VoxelCurve::Shape shape;
  VoxelCurve::Value value;
  bool offset, turning, magnitude, real, rician, unbiased;
  int flips;  ///< signs that are tried: in number n, the first n images are negative
  float prepared, period, noise, threshold, most_error, freedom;
  float first, step;              ///< ln T of the first grid point, and from one to the next
  float reach;                    ///< the most that a grid point's curve turns on half of the way to the next [rad]
  float first_turns, turns_step;  ///< likewise f
};

// clang-format off
ECHOTRAIN_BACKENDS(
void fit_voxels(Context& context, const VoxelFitWork& work);
)
// clang-format on

}  // namespace echotrain::numerics
