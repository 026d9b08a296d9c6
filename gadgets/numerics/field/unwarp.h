// Images of echo-planar scans without the distortion of a field that was off.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// corrected[b, z, y, x] = (1 + d s/dy) distorted[b, z, y + s, x], s = shift[z, y, x] in voxels: where the voxel's
/// signal lies in the distorted image, and how much of its axis it takes there (Jezzard & Balaban, MRM 34, 1995).
/// Values between voxels come from eight of them, by a sinc in a Kaiser-Bessel window; beyond the borders there are
/// zeros. Derivatives are central differences, at borders one-sided. Where signals pile up so that the order of voxels
/// is reversed (1 + d s/dy <= 0), no image has the answer, and voxels become 0.
///
/// distorted, corrected: [batch, z, y, x], not the same memory; shift: [z, y, x]. `modulate` false: without the factor
/// 1 + d s/dy. Asynchronous on CUDA. std::invalid_argument on shapes that do not fit.
void unwarp(Context& context, DeviceView<const cfloat> distorted, DeviceView<const float> shift, bool modulate,
            DeviceView<cfloat> corrected);

}  // namespace echotrain::numerics
