#include "gadgets/numerics/inverse/operators/map_products.h"

#include <fmt/format.h>

#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/inverse/operators/map_products_ops.h"

namespace echotrain::numerics {
namespace {

/// The number of voxels of a shape [n, voxels], whatever the image's axes are.
std::int64_t voxels_of(const Shape& shape) {
  std::int64_t n = 1;
  for (std::size_t a = 1; a < shape.rank(); ++a) n *= shape[a];
  return n;
}

MapProducts products(DeviceView<const cfloat> maps, const Shape& x, const Shape& of_coils, std::int64_t sets) {
  const Shape& m = maps.shape();
  const auto fits = [&](const Shape& other) {
    if (other.rank() != m.rank()) return false;
    for (std::size_t a = 1; a < m.rank(); ++a)
      if (other[a] != m[a]) return false;
    return true;
  };
  const bool good = sets >= 1 && m.rank() >= 2 && m[0] >= sets && m[0] % sets == 0 && fits(x) && fits(of_coils) &&
                    x[0] % sets == 0 && of_coils[0] == x[0] / sets * (m[0] / sets);
  if (!good)
    throw std::invalid_argument(
        fmt::format("coil maps {} of {} sets fit no images {} and {}", m.text(), sets, x.text(), of_coils.text()));
  return {.maps = maps.data(), .frames = x[0] / sets, .sets = sets, .coils = m[0] / sets, .voxels = voxels_of(m)};
}

}  // namespace

void spread_to_coils(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> x,
                     DeviceView<cfloat> of_coils, std::int64_t sets) {
  const MapProducts p = products(maps, x.shape(), of_coils.shape(), sets);
  if (of_coils.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, spread_to_coils(context, p, x.data(), of_coils.data()));
}

void gather_from_coils(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> of_coils,
                       DeviceView<cfloat> x, std::int64_t sets) {
  const MapProducts p = products(maps, x.shape(), of_coils.shape(), sets);
  if (x.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, gather_from_coils(context, p, of_coils.data(), x.data()));
}

void join_sets(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> joined) {
  const Shape& one = joined.shape();
  const bool good = one.rank() >= 2 && x.shape().rank() == one.rank() && one[0] == 1 && x.shape()[0] >= 1 &&
                    x.shape().size() == x.shape()[0] * one.size() && voxels_of(x.shape()) == voxels_of(one);
  if (!good) throw std::invalid_argument(fmt::format("images {} of sets do not make {}", x.shape().text(), one.text()));
  if (one.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, join_sets(context, x.data(), x.shape()[0], one.size(), joined.data()));
}

}  // namespace echotrain::numerics
