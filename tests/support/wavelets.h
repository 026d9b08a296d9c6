// The wavelets are Daubechies' of four taps in float64, written out with loops.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/support/direct_sum.h"

namespace echotrain::testing {

using numerics::cdouble;
using Extents3 = std::array<std::int64_t, 3>;  ///< z, y, x

/// Returns the low, then the high coefficients of a line; or, not forward, the line of these: the transposed sums.
inline std::vector<cdouble> one_level(const std::vector<cdouble>& line, bool forward) {
  const double s = std::sqrt(3.0), d = 4 * std::sqrt(2.0);
  const double low[4] = {(1 + s) / d, (3 + s) / d, (3 - s) / d, (1 - s) / d};
  const std::size_t n = line.size(), even = n - n % 2, lows = n - even / 2;
  std::vector<cdouble> out(n);
  for (std::size_t j = 0; j < even / 2; ++j)
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t at = (2 * j + k + even - 2) % even;
      const double high = (k % 2 == 0 ? 1.0 : -1.0) * low[3 - k];  // the quadrature mirror filter
      if (forward) {
        out[j] += low[k] * line[at];
        out[lows + j] += high * line[at];
      } else {
        out[at] += low[k] * line[j] + high * line[lows + j];
      }
    }
  if (even < n) out[forward ? lows - 1 : n - 1] = line[forward ? n - 1 : lows - 1];
  return out;
}

/// The coefficients of an image [z, y, x], or the image of its coefficients.
inline std::vector<cdouble> wavelets(std::vector<cdouble> image, const Extents3& n, std::int64_t smallest,
                                     bool forward = true) {
  struct Pass {
    std::size_t axis;
    Extents3 box;
  };
  std::vector<Pass> passes;
  Extents3 box = n, counted = n;
  for (bool any = true; any;) {
    any = false;
    const Extents3 before = box;
    for (std::size_t a = 0; a < 3; ++a) {
      if (box[a] < 2 || counted[a] < smallest) continue;
      any = true;
      passes.push_back({a, before});
      box[a] = (before[a] + 1) / 2;
      counted[a] = (counted[a] + 3) / 2;
    }
  }
  for (std::size_t p = 0; p < passes.size(); ++p) {
    const auto& [a, extents] = passes[forward ? p : passes.size() - 1 - p];
    const std::size_t b = (a + 1) % 3, c = (a + 2) % 3;
    const Extents3 strides{n[1] * n[2], n[2], 1};
    for (std::int64_t j = 0; j < extents[b]; ++j)
      for (std::int64_t k = 0; k < extents[c]; ++k) {
        const std::int64_t first = j * strides[b] + k * strides[c];
        std::vector<cdouble> line;
        for (std::int64_t i = 0; i < extents[a]; ++i)
          line.push_back(image[static_cast<std::size_t>(first + i * strides[a])]);
        line = one_level(line, forward);
        for (std::int64_t i = 0; i < extents[a]; ++i)
          image[static_cast<std::size_t>(first + i * strides[a])] = line[static_cast<std::size_t>(i)];
      }
  }
  return image;
}

}  // namespace echotrain::testing
