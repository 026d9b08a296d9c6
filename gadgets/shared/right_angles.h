// Right angles are what the directions of a header's axes have between them, where the header has directions.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

#include "gadgets/shared/measurement.h"

namespace echotrain {

/// True for directions of length 1 at right angles, to 1e-3.
inline bool right_angles(const std::array<Vector, 3>& axes) {
  constexpr double kOff = 1e-3;
  for (std::size_t a = 0; a < 3; ++a)
    for (std::size_t b = 0; b <= a; ++b)
      if (!(std::abs(dot(axes[a], axes[b]) - (a == b ? 1 : 0)) < kOff)) return false;
  return true;
}

}  // namespace echotrain
