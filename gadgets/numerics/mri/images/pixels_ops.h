// Conversions of pixels on each backend, one pixel at a time; arguments were checked.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/mri/images/pixels.h"

namespace echotrain::numerics {

/// The counts that pixels add to a tally.
struct PixelCounts {
  unsigned not_finite = 0, saturated = 0, any = 0;

  /// Converts `value` to a pixel, and counts it.
  template <class T>
  ECHOTRAIN_HOST_DEVICE T pixel(float value) {
    const bool finite = fabsf(value) <= 3.402823466e38f;  // false for NaN
    if (!finite) ++not_finite;
    T out{};
    if constexpr (std::is_integral_v<T>) {
      const double low = static_cast<double>(lowest<T>()), high = static_cast<double>(highest<T>());
      const double rounded = rint(static_cast<double>(value));
      if (finite && (rounded < low || rounded > high)) ++saturated;
      out = value != value ? T{0} : static_cast<T>(rounded < low ? low : rounded > high ? high : rounded);
    } else {
      out = static_cast<T>(value);
    }
    if (out != T{0}) any = 1;
    return out;
  }
  /// Converts a complex value to a pixel of double precision, and counts it once.
  template <class Complex>
  ECHOTRAIN_HOST_DEVICE Complex complex_pixel(float re, float im) {
    const unsigned before = not_finite;
    const Complex out{pixel<double>(re), pixel<double>(im)};
    if (not_finite > before + 1) not_finite = before + 1;
    return out;
  }

 private:
  template <class T>
  ECHOTRAIN_HOST_DEVICE static constexpr T lowest() {
    return std::is_signed_v<T> ? static_cast<T>(T{1} << (8 * sizeof(T) - 1)) : T{0};
  }
  template <class T>
  ECHOTRAIN_HOST_DEVICE static constexpr T highest() {
    return static_cast<T>(~lowest<T>());
  }
};

/// Calls `call` with a pointer to pixels of their type, aligned as memory of a context is. Complex ones have the
/// backend's types, of single and of double precision.
template <class Single, class Double, class Call>
void with_pixels(const std::byte* pixels, PixelType type, const Call& call) {
  const void* from = pixels;
  switch (type) {
    case PixelType::u16:
      return call(static_cast<const std::uint16_t*>(from));
    case PixelType::i16:
      return call(static_cast<const std::int16_t*>(from));
    case PixelType::u32:
      return call(static_cast<const std::uint32_t*>(from));
    case PixelType::i32:
      return call(static_cast<const std::int32_t*>(from));
    case PixelType::f32:
      return call(static_cast<const float*>(from));
    case PixelType::f64:
      return call(static_cast<const double*>(from));
    case PixelType::c64:
      return call(static_cast<const Single*>(from));
    case PixelType::c128:
      return call(static_cast<const Double*>(from));
  }
}

/// One value inverted.
ECHOTRAIN_HOST_DEVICE inline float inverted(float re, float im, const Inversion& how) {
  const double x = re, y = im;
  const float value = how.of_magnitudes ? static_cast<float>(sqrt(x * x + y * y)) : re;
  const float out = how.most - value;
  return out < how.least ? how.least : out;  // NaN stays NaN
}

/// One magnitude with the phase of (re, im).
template <class Complex>
ECHOTRAIN_HOST_DEVICE Complex with_phase(float magnitude, float re, float im) {
  const double x = re, y = im, size = sqrt(x * x + y * y);
  if (!(size > 0)) return Complex{magnitude, 0};
  const double factor = magnitude / size;
  return Complex{static_cast<float>(x * factor), static_cast<float>(y * factor)};
}

// clang-format off
ECHOTRAIN_BACKENDS(
void from_pixels(Context& context, const std::byte* from, PixelType type, std::int64_t n, cfloat* to);
/// T: std::int16_t, std::uint32_t, std::int32_t or double. tally may be nullptr.
template <class T>
void to_pixels(Context& context, const float* from, std::int64_t n, T* to, PixelTally* tally);
void to_pixels(Context& context, const cfloat* from, std::int64_t n, cdouble* to, PixelTally* tally);
void invert(Context& context, const cfloat* from, std::int64_t n, const Inversion& how, cfloat* to);
void to_complex(Context& context, const float* from, std::int64_t n, cfloat* to);
void with_phases(Context& context, const float* magnitudes, const cfloat* phases, std::int64_t n, cfloat* to);
)
// clang-format on

}  // namespace echotrain::numerics
