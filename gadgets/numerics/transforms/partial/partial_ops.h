// Partial Fourier on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/extents.h"
#include "gadgets/numerics/transforms/partial/partial_fourier.h"

namespace echotrain::numerics {

/// The factors of the axes of centred items, one axis after the other: z, y, x. They are where the context computes.
struct AxisFactors {
  Extents n{1, 1, 1};
  const float* values = nullptr;
  ECHOTRAIN_HOST_DEVICE float at(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return values[z] * values[n[0] + y] * values[n[0] + n[1] + x];
  }
};

/// The element of a transform of n points that holds index i of a centred axis.
ECHOTRAIN_HOST_DEVICE inline std::int64_t in_fft_order(std::int64_t i, std::int64_t n) {
  return i < n / 2 ? i + n - n / 2 : i - n / 2;
}

// clang-format off
ECHOTRAIN_BACKENDS(
/// data *= factors; [batch, n...], centred.
void multiply_axes(Context& context, const AxisFactors& factors, std::int64_t batch, cfloat* data);
/// to = from times factors, in FFT order.
void place_weighted(Context& context, const cfloat* from, const AxisFactors& factors, std::int64_t batch, cfloat* to);
/// image = |image| u, with `real` Re(image conj(u)) u, where u = reference / |reference|; unchanged where reference is
/// 0.
void project(Context& context, const cfloat* reference, std::int64_t n, bool real, cfloat* image);
/// spectrum (FFT order) = m data + (1 - m) scale spectrum where m or `filled` is above 0, else 0. With `finish`, the
/// result goes to data (centred) instead.
void keep_acquired(Context& context, cfloat* data, const AxisFactors& m, const AxisFactors& filled, std::int64_t batch, float scale, bool finish, cfloat* spectrum);
)
// clang-format on

}  // namespace echotrain::numerics
