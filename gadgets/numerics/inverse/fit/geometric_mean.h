// The geometric mean of images' magnitudes.
#pragma once

#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// to[voxel] = the geometric mean of |from[image, voxel]| over `images`, and so 0 where one of them is 0. Of diffusion
/// along three orthogonal directions this is the signal that decays with the trace's mean (ADC). from: [image, voxel],
/// to: [voxel]. Asynchronous on CUDA. Throws std::invalid_argument on shapes or images that do not fit.
void geometric_mean(Context& context, DeviceView<const cfloat> from, const std::vector<std::int32_t>& images,
                    DeviceView<cfloat> to);

}  // namespace echotrain::numerics
