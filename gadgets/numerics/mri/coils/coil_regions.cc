#include "gadgets/numerics/mri/coils/coil_regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/coils/coil_regions_ops.h"

namespace echotrain::numerics {

void cut_region(Context& context, DeviceView<const cfloat> from, const Extents& first,
                const std::array<std::vector<double>, 3>& factors, DeviceView<cfloat> to) {
  bool fits = from.shape().rank() == 4 && to.shape().rank() == 4 && from.shape()[0] == to.shape()[0];
  for (std::size_t a = 0; fits && a < 3; ++a)
    fits = static_cast<std::int64_t>(factors[a].size()) == to.shape()[a + 1] && first[a] >= 0 &&
           first[a] + to.shape()[a + 1] <= from.shape()[a + 1];
  if (!fits)
    throw std::invalid_argument(
        fmt::format("cut_region: {} is no part of {} from {}, {}, {} (z, y, x) on, or factors "
                    "do not fit",
                    to.shape().text(), from.shape().text(), first[0], first[1], first[2]));
  if (to.size() == 0) return;
  const Extents n = last_axes(to.shape(), 3);
  HostArray<double> host = context.allocate_host<double>({n[0] + n[1] + n[2]});
  double* next = host.data();
  for (const auto& of_axis : factors) next = std::copy(of_axis.begin(), of_axis.end(), next);
  const Array<double> there = context.place<double>(host);
  const CoilRegion region{from.data(), last_axes(from.shape(), 3), first, n, from.shape()[0], to.data()};
  ECHOTRAIN_DISPATCH(context, cut_region(context, region, there.data()));
}

void unit_maps(Context& context, DeviceView<const cfloat> maps, DeviceView<cfloat> to) {
  bool fits = maps.shape().rank() == 4 && to.shape().rank() == 4 && maps.shape()[0] == to.shape()[0];
  for (std::size_t a = 1; fits && a < 4; ++a) fits = to.shape()[a] <= maps.shape()[a];
  if (!fits)
    throw std::invalid_argument(
        fmt::format("unit_maps: {} is not the middle of maps {}", to.shape().text(), maps.shape().text()));
  if (to.size() == 0) return;
  const Extents extents = last_axes(maps.shape(), 3), n = last_axes(to.shape(), 3);
  Extents first{};
  for (std::size_t a = 0; a < 3; ++a) first[a] = extents[a] / 2 - n[a] / 2;
  const CoilRegion region{maps.data(), extents, first, n, maps.shape()[0], to.data()};
  ECHOTRAIN_DISPATCH(context, unit_maps(context, region));
}

}  // namespace echotrain::numerics
