// Gaussian filters, images of half the size and local contrast, as registration asks them of single images.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// The widest Gaussian that gaussian_filter() takes [voxels].
constexpr float kMostSigma = 4.8f;

/// Filters each plane in its place with a Gaussian of this standard deviation [voxels], cut off at 2.5 of them and of
/// sum 1, by a pass along y and one along x. Borders repeat the last voxel. planes: [plane, y, x]; scratch: at least as
/// many elements. Asynchronous on CUDA, as all of this header. Throws std::invalid_argument when sigma is not in (0,
/// kMostSigma] or shapes do not fit.
void gaussian_filter(Context& context, float sigma, DeviceView<float> planes, DeviceView<float> scratch);

/// to[p, y, x] = the voxels 2 y - 1 .. 2 y + 2 and 2 x - 1 .. 2 x + 2 with weights 1, 3, 3, 1 along each axis, over 64:
/// the place (y, x) is (2 y + 1/2, 2 x + 1/2) of the larger image. Borders repeat.
/// from: [plane, y, x]; to: [plane, ceil(y / 2), ceil(x / 2)].
void halve(Context& context, DeviceView<const float> from, DeviceView<float> to);

/// Takes brightness and contrast out of images: d = I - G I, to = d / sqrt(G d^2 + f), with a Gaussian G of `sigma`
/// voxels and the floor f = 0.05 mean(d^2) of each image, so that noise in the air stays small. An image of which a
/// value is not finite becomes 0 and has a floor of 0, as does one of contrast below rounding, mean(d^2) <= 1e-11
/// mean(I^2). Magnitudes between 1e-15 and 1e15 are within float32's range. from, to: [plane, y, x], not the same
/// memory; scratch: twice as many elements; floors: [plane].
void local_contrast(Context& context, float sigma, DeviceView<const float> from, DeviceView<float> scratch,
                    DeviceView<float> to, DeviceView<float> floors);

}  // namespace echotrain::numerics
