// Fields of displacements [voxels]: composed, their volume change, and images moved by them.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

// A field u is [field, 2, y, x]: first the displacements along x, then those along y, in voxels; it moves an image so
// that warped(p) = moving(p + u(p)). Extents are at least 2. All is asynchronous on CUDA, and throws
// std::invalid_argument when shapes do not fit.

/// to(p) = first(p) + second(p + first(p)): what moves as `second` and then `first` do, with one interpolation.
/// `second` lies between voxels linearly, and beyond borders it repeats. to is no memory of `second`.
void compose_fields(Context& context, DeviceView<const float> first, DeviceView<const float> second,
                    DeviceView<float> to);

/// to[f, y, x] = det(1 + du/dp): the voxel's area in the moving image; where it is not positive, the field folds.
/// Central differences, at borders one-sided.
void jacobian(Context& context, DeviceView<const float> fields, DeviceView<float> to);

/// The map of warp() (numerics/mri/field/warp.h) [4, z, y, x] that moves each plane z of images by its field, fields
/// [z, 2, y, x]. unwarp: nothing, or such a map by which the images are to be unwarped first: both then take one
/// interpolation.
void motion_map(Context& context, DeviceView<const float> fields, DeviceView<const float> unwarp,
                DeviceView<float> map);

/// Moves image b by field b, with warp()'s interpolation; beyond borders there are zeros.
/// images, warped: [batch, y, x], not the same memory; fields: [batch, 2, y, x].
void warp_by(Context& context, DeviceView<const cfloat> images, DeviceView<const float> fields,
             DeviceView<cfloat> warped);

}  // namespace echotrain::numerics
