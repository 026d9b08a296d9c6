// The coil operations of each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/coils/coil.h"

namespace echotrain::numerics::cpu {
void root_sum_of_squares(Context& context, View<const cfloat> from, View<cfloat> to);
void apply_coil_matrix(Context& context, View<const cfloat> matrix, View<cfloat> data);
}  // namespace echotrain::numerics::cpu

namespace echotrain::numerics::cuda {
void root_sum_of_squares(Context& context, View<const cfloat> from, View<cfloat> to);
void apply_coil_matrix(Context& context, View<const cfloat> matrix, View<cfloat> data);
}  // namespace echotrain::numerics::cuda
