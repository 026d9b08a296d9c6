// The rearrangement of each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/layout/rearrange.h"

namespace echotrain::numerics {

/// A rearrangement as steps through memory: to[c, i0, i1, i2] = from[c * coil + start + sum of stride_a i_a].
struct Strides {
  std::int64_t coil = 0, start = 0;
  std::array<std::int64_t, 3> stride{};
};

// clang-format off
ECHOTRAIN_BACKENDS(
void rearrange(Context& context, DeviceView<const cfloat> from, const Strides& strides, DeviceView<cfloat> to);
)
// clang-format on

}  // namespace echotrain::numerics
