// Products with maps on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/inverse/operators/map_products.h"

namespace echotrain::numerics {

struct MapProducts {
  const cfloat* maps;
  std::int64_t frames, sets, coils, voxels;
};

// clang-format off
ECHOTRAIN_BACKENDS(
void spread_to_coils(Context& context, const MapProducts& p, const cfloat* x, cfloat* of_coils);
void gather_from_coils(Context& context, const MapProducts& p, const cfloat* of_coils, cfloat* x);
void join_sets(Context& context, const cfloat* x, std::int64_t sets, std::int64_t voxels, cfloat* joined);
)
// clang-format on

}  // namespace echotrain::numerics
