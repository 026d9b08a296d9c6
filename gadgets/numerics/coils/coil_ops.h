// The coil operations of each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/coils/coil.h"

namespace echotrain::numerics::cpu {
void root_sum_of_squares(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to);
void apply_coil_matrix(Context& context, DeviceView<const cfloat> matrix, DeviceView<cfloat> data);
}  // namespace echotrain::numerics::cpu

namespace echotrain::numerics::cuda {
void root_sum_of_squares(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to);
void apply_coil_matrix(Context& context, DeviceView<const cfloat> matrix, DeviceView<cfloat> data);
}  // namespace echotrain::numerics::cuda
