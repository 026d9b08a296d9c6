// The gridding window on the device.
#pragma once

#include "gadgets/numerics/transforms/nufft/nufft_plan.h"

namespace echotrain::numerics::cuda {

/// The windows of the grid's axes, passed to kernels by value.
struct Windows {
  WindowPolynomial axis[3];
};

/// The window where 1 - 2 (2 u / width)^2 = `x`, u cells from the sample, from the first `Terms` coefficients.
template <int Terms>
__device__ __forceinline__ float window_of(const WindowPolynomial& window, float x) {
  float sum = window.coefficients[Terms - 1];
#pragma unroll
  for (int k = Terms - 2; k >= 0; --k) sum = sum * x + window.coefficients[k];
  return sum;
}

/// The weight at a footprint's point `j`, 0 .. width - 1: phi(j + shift - width/2).
template <int Terms = WindowPolynomial::kMostTerms>
__device__ inline float window_at(const WindowPolynomial& window, int width, float j, float shift) {
  const float w = static_cast<float>(width), v = (j + (shift - 0.5f * w)) * (2.8284271f / w);
  return window_of<Terms>(window, 1 - v * v);
}

/// True if `terms` coefficients are enough for all windows.
inline bool are_short(const WindowPolynomial* windows, int terms) {
  for (int a = 0; a < 3; ++a)
    for (int k = terms; k < WindowPolynomial::kMostTerms; ++k)
      if (windows[a].coefficients[k] != 0) return false;
  return true;
}

}  // namespace echotrain::numerics::cuda
