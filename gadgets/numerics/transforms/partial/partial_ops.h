// The element-wise steps of windows and of partial Fourier; arguments were checked.
#pragma once

#include <array>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/extents.h"

namespace echotrain::numerics {

/// The factors of the axes of centred items, one axis after the other: z, y, x. They are where the context computes.
struct AxisFactors {
  Extents n{1, 1, 1};
  const float* values = nullptr;
};

/// data *= factors; [batch, n...], centred.
void multiply_axes(Context& context, const AxisFactors& factors, std::int64_t batch, cfloat* data);
/// data *= a window of the radius, the root of the sum over axes of (k per_reach)^2: 1 up to `flat`, half a cosine to 0
/// at `end`; with sigma > 0 exp(-radius^2 / (2 sigma^2)); [batch, n...], centred.
void multiply_radius(Context& context, const Extents& n, const std::array<float, 3>& per_reach, float flat, float end,
                     float sigma, std::int64_t batch, cfloat* data);
/// to = from times factors, in FFT order.
void place_weighted(Context& context, const cfloat* from, const AxisFactors& factors, std::int64_t batch, cfloat* to);
/// image = |image| u, with `real` Re(image conj(u)) u, where u = reference / |reference|; unchanged where reference is
/// 0.
void project(Context& context, const cfloat* reference, std::int64_t n, bool real, cfloat* image);
/// spectrum (FFT order) = m data + (1 - m) scale spectrum where m or `filled` is above 0, else 0. With `finish`, the
/// result goes to data (centred) instead.
void keep_acquired(Context& context, cfloat* data, const AxisFactors& m, const AxisFactors& filled, std::int64_t batch,
                   float scale, bool finish, cfloat* spectrum);

}  // namespace echotrain::numerics
