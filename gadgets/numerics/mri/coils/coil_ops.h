// The product of a matrix and channels on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/mri/coils/coil.h"

namespace echotrain::numerics {

// clang-format off
ECHOTRAIN_BACKENDS(
void apply_coil_matrix(Context& context, DeviceView<const cfloat> matrix, DeviceView<cfloat> data);
)
// clang-format on

}  // namespace echotrain::numerics
