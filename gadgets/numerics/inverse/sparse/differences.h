// Finite differences of neighbours in a series of images, and their adjoint.
#pragma once

#include <array>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// The axes along which neighbours are taken: t, z, y, x of a series [frame, z, y, x]. Axes of one element have none.
/// Space is periodic, so that the last voxel's next one is the first; time is not.
struct DifferenceAxes {
  std::array<bool, 4> along{};
  static DifferenceAxes space() { return {{false, true, true, true}}; }
  static DifferenceAxes time() { return {{true, false, false, false}}; }
};

/// The number of the axes that have neighbours in a series of this shape.
std::int64_t count(const DifferenceAxes& axes, const Shape& series);

/// G x: d[a, r] = x(r + e_a) - x(r), for the axes that count() counts, slowest first; 0 for the last frame along time.
/// The norm of G is at most 2 sqrt(count). x: [frame, z, y, x]; d: [count, frame, z, y, x]. Asynchronous on CUDA.
/// Throws std::invalid_argument on shapes that do not fit.
void differences(Context& context, const DifferenceAxes& axes, DeviceView<const cfloat> x, DeviceView<cfloat> d);

/// x = G^H d.
void differences_adjoint(Context& context, const DifferenceAxes& axes, DeviceView<const cfloat> d,
                         DeviceView<cfloat> x);

}  // namespace echotrain::numerics
