// Parts of coil arrays on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/mri/coils/coil_regions.h"

namespace echotrain::numerics {

/// A box of `n` points within `extents`, starting at `first`.
struct CoilRegion {
  const cfloat* from;
  Extents extents, first, n;
  std::int64_t coils;
  cfloat* to;

  ECHOTRAIN_HOST_DEVICE std::int64_t source(std::int64_t coil, std::int64_t z, std::int64_t y, std::int64_t x) const {
    return ((coil * extents[0] + first[0] + z) * extents[1] + first[1] + y) * extents[2] + first[2] + x;
  }
};

// clang-format off
ECHOTRAIN_BACKENDS(
/// factors: of z, then of y, then of x.
void cut_region(Context& context, const CoilRegion& region, const double* factors);
void unit_maps(Context& context, const CoilRegion& region);
)
// clang-format on

}  // namespace echotrain::numerics
