// A warp moves the voxels of images by a map, and interpolates them once.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// The voxels along z that a value between planes comes from: eight of a volume that was encoded in 3D; the two
/// neighbours of slices, whose profiles no sinc describes.
enum class PlaneTaps { sinc, linear };

/// warped[b, z, y, x] = f images[b, z + v_z, y + v_y, x + v_x], (v_x, v_y, v_z, f) = map[0..3, z, y, x]. Values between
/// voxels come from eight of them along each axis, by the sinc of unwarp(); beyond the borders there are zeros. Images
/// of one plane have no v_z.
///
/// images, warped: [batch, z, y, x], not the same memory; map: [4, z, y, x], as gradient_map() makes it. Asynchronous
/// on CUDA. Throws std::invalid_argument on shapes that do not fit.
void warp(Context& context, DeviceView<const cfloat> images, DeviceView<const float> map, PlaneTaps planes,
          DeviceView<cfloat> warped);

}  // namespace echotrain::numerics
