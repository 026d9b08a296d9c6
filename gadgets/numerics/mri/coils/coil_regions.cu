#include <cmath>

#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/mri/coils/coil_regions.h"

namespace echotrain::numerics {

/// A box of `n` points within `extents`, starting at `first`.
struct CoilRegion {
  const cfloat* from;
  Extents extents, first, n;
  cfloat* to;

  ECHOTRAIN_HOST_DEVICE const cfloat* source(std::int64_t coil, std::int64_t z, std::int64_t y, std::int64_t x) const {
    return from + ((coil * extents[0] + first[0] + z) * extents[1] + first[1] + y) * extents[2] + first[2] + x;
  }
  ECHOTRAIN_HOST_DEVICE cfloat* target(std::int64_t coil, std::int64_t z, std::int64_t y, std::int64_t x) const {
    return to + ((coil * n[0] + z) * n[1] + y) * n[2] + x;
  }
};

struct CutRegion : CoilRegion {
  static constexpr int kLanes[] = {0, 0, 0, 256};
  static constexpr bool kClones = true;
  const double* factors;  ///< of z, then of y, then of x

  template <int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t coil, std::int64_t z, std::int64_t y, Lanes<kMost> x) const {
    const double of_row = factors[z] * factors[n[0] + y], *const of_x = factors + n[0] + n[1] + x.first;
    const cfloat* const line = source(coil, z, y, x.first);
    cfloat* const out = target(coil, z, y, x.first);
    for (int l = 0; l < x.count; ++l) store(static_cast<float>(of_row * of_x[l]) * load(line + l), out + l);
  }
};
ECHOTRAIN_MAP(CutRegion, 4)

struct UnitMaps : CoilRegion {
  static constexpr int kLanes[] = {0, 0, 256};
  std::int64_t coils;

  template <int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t z, std::int64_t y, Lanes<kMost> x) const {
    float factor[kMost];
    for (int l = 0; l < x.count; ++l) factor[l] = 0;
    for (std::int64_t c = 0; c < coils; ++c) {
      const cfloat* line = source(c, z, y, x.first);
      for (int l = 0; l < x.count; ++l) factor[l] += power(load(line + l));
    }
    for (int l = 0; l < x.count; ++l) factor[l] = factor[l] > 1e-12f ? 1 / sqrtf(factor[l]) : 0.0f;
    for (std::int64_t c = 0; c < coils; ++c) {
      const cfloat* line = source(c, z, y, x.first);
      cfloat* const out = target(c, z, y, x.first);
      for (int l = 0; l < x.count; ++l) store(factor[l] * load(line + l), out + l);
    }
  }
};
ECHOTRAIN_MAP(UnitMaps, 3)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

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
  map(context, {from.shape()[0], n[0], n[1], n[2]},
      CutRegion{{from.data(), last_axes(from.shape(), 3), first, n, to.data()}, there.data()});
}

void unit_maps(Context& context, DeviceView<const cfloat> maps, DeviceView<cfloat> to) {
  bool fits = maps.shape().rank() == 4 && to.shape().rank() == 4 && maps.shape()[0] == to.shape()[0];
  for (std::size_t a = 1; fits && a < 4; ++a) fits = to.shape()[a] <= maps.shape()[a];
  if (!fits)
    throw std::invalid_argument(
        fmt::format("unit_maps: {} is not the middle of maps {}", to.shape().text(), maps.shape().text()));
  if (to.size() == 0) return;
  const Extents extents = last_axes(maps.shape(), 3), n = last_axes(to.shape(), 3);
  constexpr std::int64_t kRows = 16;  // that make a piece worth a thread
  Extents first{};
  for (std::size_t a = 0; a < 3; ++a) first[a] = extents[a] / 2 - n[a] / 2;
  map(context, {n[0], n[1], n[2]}, UnitMaps{{maps.data(), extents, first, n, to.data()}, maps.shape()[0]},
      kRows * n[2]);
}

}  // namespace echotrain::numerics
#endif
