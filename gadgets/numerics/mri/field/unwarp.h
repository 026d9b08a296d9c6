// Distortion correction of echo-planar images by a known shift, as from an inhomogeneous field.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// corrected[b, z, y, x] = (1 + d s/dy) distorted[b, z, y + s, x], s = shift[z, y, x] in voxels: the place of the
/// voxel's signal in the distorted image, and the length of axis that it takes there (Jezzard & Balaban, MRM 34, 1995).
/// Values between voxels come from eight of them, by a sinc in a Kaiser-Bessel window; beyond the borders there are
/// zeros. Derivatives are central differences, at borders one-sided. Where signals pile up so that the order of voxels
/// is reversed (1 + d s/dy <= 0), the image cannot be recovered, and voxels become 0.
///
/// distorted, corrected: [batch, z, y, x], not the same memory; shift: [z, y, x]. `modulate` false: without the factor
/// 1 + d s/dy. Asynchronous on CUDA. Throws std::invalid_argument on shapes that do not fit.
void unwarp(Context& context, DeviceView<const cfloat> distorted, DeviceView<const float> shift, bool modulate,
            DeviceView<cfloat> corrected);

}  // namespace echotrain::numerics
