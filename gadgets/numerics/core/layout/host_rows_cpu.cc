#include "gadgets/numerics/core/layout/host_rows_ops.h"

namespace echotrain::numerics::cpu {

Array<cfloat> collect_rows(Context& context, std::span<const HostRow> rows, const Shape& shape) {
  return copy_rows(context, rows, shape);
}

}  // namespace echotrain::numerics::cpu
