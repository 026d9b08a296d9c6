// Differences of neighbours on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/inverse/sparse/differences.h"

namespace echotrain::numerics {

/// The extents of a series and the axes that have neighbours.
struct SeriesGrid {
  std::int64_t n[4];  ///< t, z, y, x
  int axes[4];        ///< the axes, `count` of them
  int count;

  std::int64_t size() const { return n[0] * n[1] * n[2] * n[3]; }
  ECHOTRAIN_HOST_DEVICE std::int64_t stride(int axis) const {
    std::int64_t step = 1;
    for (int a = 3; a > axis; --a) step *= n[a];
    return step;
  }
  /// The distance from element i of an axis to the next one, or to the one before, in elements of the series; 0 where
  /// there is none.
  ECHOTRAIN_HOST_DEVICE std::int64_t next(int axis, std::int64_t i) const {
    if (i + 1 < n[axis]) return stride(axis);
    return axis == 0 ? 0 : -i * stride(axis);
  }
  ECHOTRAIN_HOST_DEVICE std::int64_t before(int axis, std::int64_t i) const {
    if (i > 0) return -stride(axis);
    return axis == 0 ? 0 : (n[axis] - 1) * stride(axis);
  }
};

// clang-format off
ECHOTRAIN_BACKENDS(
void differences(Context& context, const SeriesGrid& grid, const cfloat* x, cfloat* d);
void differences_adjoint(Context& context, const SeriesGrid& grid, const cfloat* d, cfloat* x);
)
// clang-format on

}  // namespace echotrain::numerics
