// The division of images by a field.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// to[c, z, y, x] = from[c, z, y, x] / field[z, y, x]. Fields below `least` count as that much, so that noise where a
/// coil hardly sees anything stays in bounds; so do fields that are not numbers. from, to: [coil, z, y, x], may be the
/// same memory; field: [z, y, x]; least above 0. Asynchronous on CUDA. Throws std::invalid_argument on shapes that do
/// not fit.
void divide_by_field(Context& context, DeviceView<const cfloat> from, DeviceView<const float> field, float least,
                     DeviceView<cfloat> to);

}  // namespace echotrain::numerics
