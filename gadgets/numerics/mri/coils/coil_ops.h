// The coil operations of each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/mri/coils/coil.h"

namespace echotrain::numerics {

// clang-format off
ECHOTRAIN_BACKENDS(
void root_sum_of_squares(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to);
void apply_coil_matrix(Context& context, DeviceView<const cfloat> matrix, DeviceView<cfloat> data);
)
// clang-format on

}  // namespace echotrain::numerics
