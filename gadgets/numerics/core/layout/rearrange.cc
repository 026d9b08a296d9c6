#include "gadgets/numerics/core/layout/rearrange.h"

#include <fmt/format.h>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/layout/rearrange_ops.h"

namespace echotrain::numerics {

void rearrange(Context& context, DeviceView<const cfloat> from, const Rearrangement& how, DeviceView<cfloat> to) {
  const Shape &f = from.shape(), &t = to.shape();
  bool good = f.rank() == 4 && t.rank() == 4 && f[0] == t[0];
  std::array<bool, 3> used{};
  Strides strides;
  if (good) {
    strides.coil = f[1] * f[2] * f[3];
    const std::array<std::int64_t, 3> of_axis{f[2] * f[3], f[3], 1};
    for (std::size_t a = 0; a < 3 && good; ++a) {
      const int axis = how.axis[a];
      good = axis >= 0 && axis < 3 && !used[static_cast<std::size_t>(axis)] && (how.step[a] == 1 || how.step[a] == -1);
      if (!good) break;
      const auto source = static_cast<std::size_t>(axis);
      used[source] = true;
      const std::int64_t last = how.first[a] + how.step[a] * (t[a + 1] - 1), n = f[source + 1];
      good = t[a + 1] == 0 || (how.first[a] >= 0 && how.first[a] < n && last >= 0 && last < n);
      strides.start += how.first[a] * of_axis[source];
      strides.stride[a] = how.step[a] * of_axis[source];
    }
  }
  if (!good)
    throw std::invalid_argument(fmt::format("rearrange: {} cannot be made of {} in this way", t.text(), f.text()));
  if (to.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, rearrange(context, from, strides, to));
}

}  // namespace echotrain::numerics
