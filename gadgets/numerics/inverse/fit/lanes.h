// Numbers of several voxels at once: a float on a GPU, a vector register of them on the CPU, for functions written once
// as templates of the type.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/complex_value.h"

#define ECHOTRAIN_LANES ECHOTRAIN_HOST_DEVICE ECHOTRAIN_INLINE

namespace echotrain::numerics {

ECHOTRAIN_LANES float select(bool choice, float yes, float no) { return choice ? yes : no; }
ECHOTRAIN_LANES bool any(bool choice) { return choice; }
ECHOTRAIN_LANES float square_root(float x) { return sqrtf(x); }
/// 2^n from 12582912 + n, in whose last bits n stands; -126 <= n <= 127.
ECHOTRAIN_LANES float power_of_two(float shifted) {
#ifdef __CUDA_ARCH__
  return __int_as_float((__float_as_int(shifted) << 23) + 0x3f800000);
#else
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3f800000U);
#endif
}

/// Reads the real and imaginary parts of one voxel.
ECHOTRAIN_LANES void load_lanes(const cfloat* from, int /*count*/, float (&parts)[2]) {
  const Complex value = load(from);
  parts[0] = value.re;
  parts[1] = value.im;
}
ECHOTRAIN_LANES void store_lanes(float value, float* to, int /*count*/) { *to = value; }

#ifndef __CUDACC__
/// kBytes / 4 floats.
template <int kBytes>
struct Wide {
  using Floats [[gnu::vector_size(kBytes)]] = float;
  using Ints [[gnu::vector_size(kBytes)]] = std::int32_t;
  static constexpr int kCount = kBytes / 4;
  Floats v;

  ECHOTRAIN_LANES Wide() : v{} {}
  ECHOTRAIN_LANES Wide(float all) : v(Floats{} + all) {}  // NOLINT(google-explicit-constructor): as a float would be

  struct Mask {
    Ints v;
    ECHOTRAIN_LANES friend Mask operator&(const Mask& a, const Mask& b) { return {a.v & b.v}; }
    ECHOTRAIN_LANES friend bool any(const Mask& a) {
      std::int32_t each[kCount], all = 0;
      std::memcpy(each, &a.v, sizeof(each));
      for (const std::int32_t e : each) all |= e;
      return all != 0;
    }
  };

  ECHOTRAIN_LANES static Wide of(const Floats& v) {
    Wide out;
    out.v = v;
    return out;
  }
  // Lanes are read and written as memory: GCC 12 takes a vector type that a template makes for its element's.
  ECHOTRAIN_LANES static Wide of(const float (&each)[kCount]) {
    Wide out;
    std::memcpy(&out.v, each, sizeof(each));
    return out;
  }
  ECHOTRAIN_LANES void get(float (&each)[kCount]) const { std::memcpy(each, &v, sizeof(each)); }

  ECHOTRAIN_LANES friend Wide operator+(const Wide& a, const Wide& b) { return of(a.v + b.v); }
  ECHOTRAIN_LANES friend Wide operator-(const Wide& a, const Wide& b) { return of(a.v - b.v); }
  ECHOTRAIN_LANES friend Wide operator*(const Wide& a, const Wide& b) { return of(a.v * b.v); }
  ECHOTRAIN_LANES friend Wide operator/(const Wide& a, const Wide& b) { return of(a.v / b.v); }
  ECHOTRAIN_LANES friend Mask operator<(const Wide& a, const Wide& b) { return {a.v < b.v}; }
  ECHOTRAIN_LANES friend Wide select(const Mask& choice, const Wide& yes, const Wide& no) {
    return of(choice.v ? yes.v : no.v);
  }
  ECHOTRAIN_LANES friend Wide square_root(const Wide& x) {
    float each[kCount];
    x.get(each);
    for (float& e : each) e = std::sqrt(e);
    return of(each);
  }
  ECHOTRAIN_LANES friend Wide power_of_two(const Wide& shifted) {
    Ints bits;
    std::memcpy(&bits, &shifted.v, sizeof(bits));
    bits = (bits << 23) + 0x3f800000;
    Wide out;
    std::memcpy(&out.v, &bits, sizeof(bits));
    return out;
  }
  /// Reads `count` voxels; the other lanes get 0.
  ECHOTRAIN_LANES friend void load_lanes(const cfloat* from, int count, Wide (&parts)[2]) {
    const auto* numbers = reinterpret_cast<const float*>(from);
    float re[kCount] = {}, im[kCount] = {};
    if (count == kCount)
      for (int l = 0; l < kCount; ++l) re[l] = numbers[2 * l], im[l] = numbers[2 * l + 1];
    else
      for (int l = 0; l < count; ++l) re[l] = numbers[2 * l], im[l] = numbers[2 * l + 1];
    parts[0] = of(re);
    parts[1] = of(im);
  }
  ECHOTRAIN_LANES friend void store_lanes(const Wide& value, float* to, int count) {
    float each[kCount];
    value.get(each);
    std::memcpy(to, each, static_cast<std::size_t>(count) * sizeof(float));
  }
};
#endif

template <class V>
ECHOTRAIN_LANES V lesser(const V& a, const V& b) {
  return select(a < b, a, b);
}
template <class V>
ECHOTRAIN_LANES V greater(const V& a, const V& b) {
  return select(b < a, a, b);
}

/// The nearest whole number, for |x| < 2^22.
template <class V>
ECHOTRAIN_LANES V nearest(const V& x) {
  const V shifted = x + V(12582912.0F);  // 1.5 2^23, whose last bit is 1
  return shifted - V(12582912.0F);
}

/// exp(x) for x <= 88, by Taylor's series within ln 2 / 2 of a power of 2: relative error 2e-7. Below -87, exp(-87).
template <class V>
ECHOTRAIN_LANES V exponential(const V& x) {
  const V bounded = greater(x, V(-87.0F));
  const V shifted = bounded * V(1.44269504F) + V(12582912.0F);
  const V n = shifted - V(12582912.0F);
  // ln 2 in two parts, the first of 9 bits: its products with n are exact.
  const V r = (bounded - n * V(0.693359375F)) + n * V(2.12194440e-4F);
  V sum = V(1.0F / 5040);
  sum = sum * r + V(1.0F / 720);
  sum = sum * r + V(1.0F / 120);
  sum = sum * r + V(1.0F / 24);
  sum = sum * r + V(1.0F / 6);
  sum = sum * r + V(0.5F);
  sum = sum * r + V(1.0F);
  sum = sum * r + V(1.0F);
  return sum * power_of_two(shifted);
}

/// sin(2 pi x) for |x| < 2^22, by Taylor's series over a quarter turn: absolute error 3e-7 for |x| < 1.
template <class V>
ECHOTRAIN_LANES V sine_of_turns(const V& x) {
  V turn = x - nearest(x);
  turn = select(V(0.25F) < turn, V(0.5F) - turn, turn);
  turn = select(turn < V(-0.25F), V(-0.5F) - turn, turn);
  const V a = turn * V(6.28318531F), b = a * a;
  V sum = V(1.0F / 6227020800.0F);
  sum = sum * b - V(1.0F / 39916800);
  sum = sum * b + V(1.0F / 362880);
  sum = sum * b - V(1.0F / 5040);
  sum = sum * b + V(1.0F / 120);
  sum = sum * b - V(1.0F / 6);
  return a + a * (b * sum);
}

}  // namespace echotrain::numerics
