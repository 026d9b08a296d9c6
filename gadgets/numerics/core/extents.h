// The extents of one to three axes, as kernels take them.
#pragma once

#include <array>
#include <cstdint>

#include "gadgets/numerics/core/array.h"

namespace echotrain::numerics {

/// Three axes (leading ones are 1), slowest first, of one item of a batch.
using Extents = std::array<std::int64_t, 3>;

/// The last `dims` axes of a shape, filled up with ones.
inline Extents last_axes(const Shape& shape, int dims) {
  Extents e{1, 1, 1};
  for (int a = 0; a < dims; ++a) e[2 - a] = shape[shape.rank() - 1 - a];
  return e;
}

inline std::int64_t volume(const Extents& e) { return e[0] * e[1] * e[2]; }

}  // namespace echotrain::numerics
