// Denoising by non-local means: every voxel becomes a mean of those whose surroundings look alike.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

struct NonLocalMeans {
  int patch = 1;           ///< half size of the surroundings (patch) that are compared, in voxels, 0..8
  int search = 5;          ///< largest distance of two voxels along each axis, 1..32
  float deviation = 1;     ///< standard deviation s of the noise of each real number, above 0
  float strength = 0.8f;   ///< h / s (below), above 0
  bool by_planes = false;  ///< surroundings and neighbours lie in the voxel's own plane
  bool rician = false;     ///< real images only: magnitudes, whose mean is too large where there is little signal
};

/// to(i) = sum_j w(i, j) u(j) / sum_j w(i, j) over the voxels j of the image that are `search` or less from i along
/// each axis, with
///   w(i, j) = exp(-max(d(i, j) - 2 v, 0) / (h^2 v / s^2)),
/// d the mean over the patch of |u(i + p) - u(j + p)|^2, borders repeated, and v the noise variance of a voxel: s^2, of
/// complex images 2 s^2. h = strength s. d of two voxels that differ by noise alone is 2 v on average. With `rician`,
/// to(i) = sqrt(max(sum_j w u(j)^2 / sum_j w - 2 s^2, 0)). Axes of one voxel have neither patch nor neighbours. Voxels
/// that are not finite have weight 0 for others, and keep their values.
/// image, to: [z, y, x]. The same bits in every run. On CUDA volumes are enqueued plane by plane, at most two ahead of
/// the device. Throws std::invalid_argument on shapes or options that do not fit.
/// Sources: Buades, Coll, Morel, "A non-local algorithm for image denoising", CVPR 2005, and "Non-local means
/// denoising", Image Processing On Line 1, 2011 (the weights); Manjon et al., "MRI denoising using non-local means",
/// Medical Image Analysis 12, 2008 (rician).
void non_local_means(Context& context, DeviceView<const float> image, const NonLocalMeans& how, DeviceView<float> to);
void non_local_means(Context& context, DeviceView<const cfloat> image, const NonLocalMeans& how, DeviceView<cfloat> to);

/// Estimates the standard deviation of white noise in an image's real numbers from its finest details: the median over
/// all blocks of 2 x 2 voxels of |a - b - c + d| / 2, divided by 0.6745. Blocks of zeros do not count; without others,
/// it returns 0. Waits for the device. image: [z, y, x].
/// Source: Donoho, Johnstone, "Ideal spatial adaptation by wavelet shrinkage", Biometrika 81, 1994.
float noise_deviation(Context& context, DeviceView<const float> image);
float noise_deviation(Context& context, DeviceView<const cfloat> image);

}  // namespace echotrain::numerics
