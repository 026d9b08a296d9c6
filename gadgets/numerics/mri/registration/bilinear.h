// Values between pixels by the four around them, for code of both compilers.
#pragma once

#include <cstdint>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/clones.h"

namespace echotrain::numerics {

/// The pixels of a plane of at least 2 x 2, ny x nx, that a place (y, x) lies between. Places beyond the border are
/// moved onto it.
struct Bilinear {
  std::int32_t at;  ///< the first of the four
  float wy, wx;     ///< the weights of the later two along y, and along x

  ECHOTRAIN_HOST_DEVICE ECHOTRAIN_INLINE Bilinear(std::int32_t ny, std::int32_t nx, float y, float x) {
    const float last_y = static_cast<float>(ny - 1), last_x = static_cast<float>(nx - 1);
    y = y > 0 ? y : 0;
    x = x > 0 ? x : 0;
    y = y < last_y ? y : last_y;
    x = x < last_x ? x : last_x;
    std::int32_t iy = static_cast<std::int32_t>(y), ix = static_cast<std::int32_t>(x);
    iy = iy < ny - 2 ? iy : ny - 2;
    ix = ix < nx - 2 ? ix : nx - 2;
    wy = y - static_cast<float>(iy);
    wx = x - static_cast<float>(ix);
    at = iy * nx + ix;
  }
  ECHOTRAIN_HOST_DEVICE ECHOTRAIN_INLINE float of(const float* plane, std::int32_t nx) const {
    const float *upper = plane + at, *lower = upper + nx;
    const float above = upper[0] + wx * (upper[1] - upper[0]), below = lower[0] + wx * (lower[1] - lower[0]);
    return above + wy * (below - above);
  }
};

}  // namespace echotrain::numerics
