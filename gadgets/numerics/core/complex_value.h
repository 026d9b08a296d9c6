// Complex numbers in code that the host's and the device's compiler compile.
#pragma once

#include "gadgets/numerics/core/array.h"
#include "gadgets/numerics/core/backends.h"

namespace echotrain::numerics {

/// A complex number for arithmetic. Products are written out: those of std::complex check for infinities, and a GPU has
/// none.
struct Complex {
  float re, im;
};

ECHOTRAIN_HOST_DEVICE inline Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
ECHOTRAIN_HOST_DEVICE inline Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
ECHOTRAIN_HOST_DEVICE inline Complex operator*(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
ECHOTRAIN_HOST_DEVICE inline Complex operator*(float a, Complex b) { return {a * b.re, a * b.im}; }
ECHOTRAIN_HOST_DEVICE inline Complex conjugate(Complex a) { return {a.re, -a.im}; }
/// conj(a) b
ECHOTRAIN_HOST_DEVICE inline Complex conjugate_product(Complex a, Complex b) {
  return {a.re * b.re + a.im * b.im, a.re * b.im - a.im * b.re};
}
/// |a|^2
ECHOTRAIN_HOST_DEVICE inline float power(Complex a) { return a.re * a.re + a.im * a.im; }

/// The element of an array, which a GPU reads in one access.
ECHOTRAIN_HOST_DEVICE inline Complex load(const cfloat* from) {
#ifdef __CUDA_ARCH__
  const float2 value = *reinterpret_cast<const float2*>(from);
  return {value.x, value.y};
#else
  const auto* parts = reinterpret_cast<const float*>(from);
  return {parts[0], parts[1]};
#endif
}
ECHOTRAIN_HOST_DEVICE inline void store(Complex value, cfloat* to) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<float2*>(to) = make_float2(value.re, value.im);
#else
  auto* parts = reinterpret_cast<float*>(to);
  parts[0] = value.re;
  parts[1] = value.im;
#endif
}

ECHOTRAIN_HOST_DEVICE inline void copy(const cfloat* from, cfloat* to) {
#ifdef __CUDA_ARCH__
  store(load(from), to);
#else
  *to = *from;
#endif
}

}  // namespace echotrain::numerics
