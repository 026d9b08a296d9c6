// Passes of the wavelet transform on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/extents.h"
#include "gadgets/numerics/inverse/sparse/wavelet.h"

namespace echotrain::numerics {

/// The terms of an element of a pass' result: the sum of weight times the value at these places of its axis.
struct WaveletTaps {
  std::int64_t at[4];
  float weight[4];
};

/// One level along one axis of a box at the beginning of each image.
struct WaveletPass {
  std::int64_t items;
  Extents n, box;
  int axis;
  bool forward;        ///< true: analysis
  std::int64_t shift;  ///< shift along the axis; 0 beyond the first level

  ECHOTRAIN_HOST_DEVICE WaveletTaps taps(std::int64_t i) const {
    constexpr float kLow[4] = {0.48296291314453414f, 0.83651630373780790f, 0.22414386804201339f, -0.12940952255126037f};
    constexpr float kHigh[4] = {-0.12940952255126037f, -0.22414386804201339f, 0.83651630373780790f,
                                -0.48296291314453414f};
    const std::int64_t length = box[static_cast<std::size_t>(axis)], even = length - length % 2, half = even / 2;
    const std::int64_t lows = length - half;
    if (forward) {
      if (i == half && lows > half) return {{shifted(even, length), 0, 0, 0}, {1, 0, 0, 0}};  // the odd one
      const bool low = i < lows;
      const std::int64_t first = 2 * (low ? i : i - lows) - 2;
      WaveletTaps taps{};
      for (int k = 0; k < 4; ++k) {
        const std::int64_t j = first + k;
        taps.at[k] = shifted(j < 0 ? j + even : j, length);
        taps.weight[k] = low ? kLow[k] : kHigh[k];
      }
      return taps;
    }
    const std::int64_t j = i >= shift ? i - shift : i - shift + length;
    if (j == even) return {{half, 0, 0, 0}, {1, 0, 0, 0}};
    const int odd = static_cast<int>(j % 2);
    const std::int64_t later = j / 2, sooner = j / 2 + 1 == half ? 0 : j / 2 + 1;
    return {{sooner, later, lows + sooner, lows + later}, {kLow[odd], kLow[odd + 2], kHigh[odd], kHigh[odd + 2]}};
  }

 private:
  ECHOTRAIN_HOST_DEVICE std::int64_t shifted(std::int64_t i, std::int64_t length) const {
    return i + shift < length ? i + shift : i + shift - length;
  }
};

// clang-format off
ECHOTRAIN_BACKENDS(
/// Transforms the box alone; `to` is other memory.
void wavelet_pass(Context& context, const WaveletPass& pass, const cfloat* from, cfloat* to);
void copy_box(Context& context, std::int64_t items, const Extents& n, const Extents& box, const cfloat* from, cfloat* to);
void copy_corner(Context& context, std::int64_t items, const Extents& n, const Extents& m, const cfloat* from, cfloat* to);
)
// clang-format on

}  // namespace echotrain::numerics
