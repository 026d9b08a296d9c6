#include "gadgets/numerics/mri/coils/coil.h"

#include <fmt/format.h>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/coils/coil_ops.h"

namespace echotrain::numerics {

void root_sum_of_squares(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to) {
  const Shape &f = from.shape(), &t = to.shape();
  bool good = f.rank() >= 1 && f.rank() == t.rank() && t[0] == 1;
  for (std::size_t a = 1; good && a < f.rank(); ++a) good = f[a] == t[a];
  if (!good)
    throw std::invalid_argument(
        fmt::format("root_sum_of_squares: expected [coil, ...] and [1, ...], got {} and {}", f.text(), t.text()));
  if (to.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, root_sum_of_squares(context, from, to));
}

void apply_coil_matrix(Context& context, DeviceView<const cfloat> matrix, DeviceView<cfloat> data) {
  const Shape &m = matrix.shape(), &d = data.shape();
  if (m.rank() != 2 || m[0] != m[1] || d.rank() != 3 || d[1] != m[0])
    throw std::invalid_argument(fmt::format(
        "apply_coil_matrix: expected [coil, coil] and [readout, coil, sample], got {} and {}", m.text(), d.text()));
  if (data.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, apply_coil_matrix(context, matrix, data));
}

}  // namespace echotrain::numerics
