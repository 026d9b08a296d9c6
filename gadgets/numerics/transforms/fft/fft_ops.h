// The Fourier transforms of each backend; arguments were checked.
#pragma once

#include <array>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/extents.h"
#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain::numerics {

/// The place of centred arrays in FFT order: index i of `n`, centred at floor(n/2), is frequency i - floor(n/2), which
/// element 0..extent-1 of the transform holds modulo its extent.
struct Centred {
  Extents n;        ///< the centred array
  Extents padded;   ///< the transform
  Extents first{};  ///< index of the first element that fits
  Extents last{};   ///< one past the last element that fits
};
inline Centred centred(const Extents& n, const Extents& padded) {
  Centred c{n, padded};
  for (int a = 0; a < 3; ++a) {
    const std::int64_t shift = n[a] / 2 - padded[a] / 2;  // distance of the centres
    c.first[a] = shift > 0 ? shift : 0;
    c.last[a] = n[a] < padded[a] + shift ? n[a] : padded[a] + shift;
  }
  return c;
}

// clang-format off
ECHOTRAIN_BACKENDS(
void fft(Context& context, cfloat* data, std::int64_t batch, const Extents& extents, int dims, Direction direction);
/// Zero-fills `padded` and places the centred item(s) there; crop() takes them out again, times `scale`.
void place(Context& context, const cfloat* from, cfloat* padded, std::int64_t batch, const Centred& c);
void crop(Context& context, const cfloat* padded, cfloat* to, std::int64_t batch, const Centred& c, float scale);
)
// clang-format on

namespace cpu {
/// Factors along each axis (slowest first); unused leading ones are nullptr.
using Factors = std::array<const float*, 3>;
/// Inverse transform of 2 or 3 axes, crop() and the product of the factors in one pass: each axis transforms only the
/// lines that survive the cropping of earlier axes. `padded`, which c.n must not exceed, is working space afterwards.
void inverse_fft_cropped(Context& context, cfloat* padded, cfloat* to, std::int64_t batch, const Centred& c, int dims,
                         const Factors& factors);
}  // namespace cpu
namespace cuda {
/// Transforms along the first axis of data: [n, columns].
void fft_columns(Context& context, cfloat* data, std::int64_t n, std::int64_t columns, Direction direction);
}  // namespace cuda

}  // namespace echotrain::numerics
