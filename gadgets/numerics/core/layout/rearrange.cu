#include "gadgets/numerics/core/layout/rearrange.h"
#include "gadgets/numerics/core/map.cuh"

namespace echotrain::numerics {

/// A rearrangement as steps through memory.
struct Rearranged {
  const cfloat* from;
  std::int64_t coil, start, stride_z, stride_y, stride_x;
  std::int64_t nz, ny, nx;
  cfloat* to;

  ECHOTRAIN_EACH void operator()(std::int64_t c, std::int64_t z, std::int64_t y, std::int64_t x) const {
    copy(from + c * coil + start + z * stride_z + y * stride_y + x * stride_x, to + ((c * nz + z) * ny + y) * nx + x);
  }
};
ECHOTRAIN_MAP(Rearranged, 4)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <fmt/format.h>

#include <stdexcept>

namespace echotrain::numerics {

void rearrange(Context& context, DeviceView<const cfloat> from, const Rearrangement& how, DeviceView<cfloat> to) {
  const Shape &f = from.shape(), &t = to.shape();
  bool good = f.rank() == 4 && t.rank() == 4 && f[0] == t[0];
  std::array<bool, 3> used{};
  std::array<std::int64_t, 3> stride{};
  std::int64_t start = 0;
  if (good) {
    const std::array<std::int64_t, 3> of_axis{f[2] * f[3], f[3], 1};
    for (std::size_t a = 0; a < 3 && good; ++a) {
      const int axis = how.axis[a];
      good = axis >= 0 && axis < 3 && !used[static_cast<std::size_t>(axis)] && (how.step[a] == 1 || how.step[a] == -1);
      if (!good) break;
      const auto source = static_cast<std::size_t>(axis);
      used[source] = true;
      const std::int64_t last = how.first[a] + how.step[a] * (t[a + 1] - 1), n = f[source + 1];
      good = t[a + 1] == 0 || (how.first[a] >= 0 && how.first[a] < n && last >= 0 && last < n);
      start += how.first[a] * of_axis[source];
      stride[a] = how.step[a] * of_axis[source];
    }
  }
  if (!good)
    throw std::invalid_argument(fmt::format("rearrange: {} cannot be made of {} in this way", t.text(), f.text()));
  map(context, {t[0], t[1], t[2], t[3]},
      Rearranged{from.data(), f[1] * f[2] * f[3], start, stride[0], stride[1], stride[2], t[1], t[2], t[3], to.data()});
}

}  // namespace echotrain::numerics
#endif
