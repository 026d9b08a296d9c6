// FFTs of a few points in the registers of one thread, with factors known at compile time.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "gadgets/numerics/core/complex_cuda.cuh"

namespace echotrain::numerics::cuda {

namespace register_fft {

/// cos(2 pi turns) for 0 <= turns <= 1/8, and the sine: Taylor series.
constexpr double kTwoPi = 6.283185307179586476925;
constexpr double series(double turns, bool sine) {
  const double x = kTwoPi * turns;
  double term = sine ? x : 1, sum = 0;
  for (int i = sine ? 1 : 0; i < 24; i += 2) {
    sum += term;
    term *= -x * x / ((i + 1) * (i + 2));
  }
  return sum;
}
/// cos and sin of 2 pi i / n, 0 <= i < n, by the octant that i / n is in.
constexpr double cosine(int i, int n);
constexpr double sine(int i, int n) {
  return 8 * i <= n       ? series(static_cast<double>(i) / n, true)
         : 8 * i <= 3 * n ? cosine(4 * i >= n ? 4 * i - n : n - 4 * i, 4 * n)
         : 2 * i <= n     ? sine(n - 2 * i, 2 * n)
                          : -sine(n - i, n);
}
constexpr double cosine(int i, int n) {
  return 8 * i <= n       ? series(static_cast<double>(i) / n, false)
         : 8 * i <= 2 * n ? sine(n - 4 * i, 4 * n)
         : 2 * i <= n     ? -cosine(n - 2 * i, 2 * n)
                          : cosine(n - i, n);
}

template <int... I, class F>
__device__ __forceinline__ void for_each(std::integer_sequence<int, I...>, F&& f) {
  (f(std::integral_constant<int, I>()), ...);
}
/// Calls f(0), ..., f(N - 1), each with its number as a constant.
template <int N, class F>
__device__ __forceinline__ void for_each(F&& f) {
  for_each(std::make_integer_sequence<int, N>(), static_cast<F&&>(f));
}

/// v exp(-2 pi i I / N), or with + for the inverse.
template <int N, int I, bool Inverse>
__device__ __forceinline__ float2 rotate(float2 v) {
  constexpr int i = I % N;
  if constexpr (i == 0) {
    return v;
  } else if constexpr (4 * i == N) {
    return Inverse ? make_float2(-v.y, v.x) : make_float2(v.y, -v.x);
  } else if constexpr (2 * i == N) {
    return make_float2(-v.x, -v.y);
  } else if constexpr (4 * i == 3 * N) {
    return Inverse ? make_float2(v.y, -v.x) : make_float2(-v.y, v.x);
  } else if constexpr (8 * i % N == 0) {
    constexpr float half = 0.70710678118654752440f;
    constexpr bool left = 8 * i == 3 * N || 8 * i == 5 * N, down = (8 * i < 4 * N) != Inverse;
    // exp = half (+-1 -+ i)
    const float x = left ? -v.x : v.x, y = left ? -v.y : v.y;
    return down ? make_float2(half * (x + v.y), half * (y - v.x)) : make_float2(half * (x - v.y), half * (y + v.x));
  } else {
    constexpr float c = static_cast<float>(cosine(i, N)), s = static_cast<float>(Inverse ? sine(i, N) : -sine(i, N));
    return make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
  }
}

/// The larger factor of N, nearest to its root; N itself when it is prime or 4.
constexpr int outer_factor(int n) {
  if (n == 4) return n;
  for (int f = 2; f * f <= n; ++f)
    if (n % f == 0) {
      int best = f;
      for (int g = f; g * g <= n; ++g)
        if (n % g == 0) best = g;
      return n / best;
    }
  return n;
}

/// v[k] = sum_j v[j] exp(-+2 pi i j k / N), both in natural order. N is a product of 2, 3 and 5.
template <int N, bool Inverse>
__device__ __forceinline__ void transform(float2 (&v)[N]) {
  constexpr int A = outer_factor(N);
  if constexpr (N == 1) {
  } else if constexpr (N == 2) {
    const float2 a = v[0];
    v[0] = a + v[1];
    v[1] = a - v[1];
  } else if constexpr (N == 3) {
    constexpr float s = static_cast<float>(sine(1, 3)) * (Inverse ? 1 : -1);
    const float2 sum = v[1] + v[2], d = v[1] - v[2];
    const float2 middle = make_float2(v[0].x - 0.5f * sum.x, v[0].y - 0.5f * sum.y),
                 turn = make_float2(-s * d.y, s * d.x);
    v[0] = v[0] + sum;
    v[1] = middle + turn;
    v[2] = middle - turn;
  } else if constexpr (N == 4) {
    const float2 a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = rotate<4, 1, Inverse>(v[1] - v[3]);
    v[0] = a + c;
    v[1] = b + d;
    v[2] = a - c;
    v[3] = b - d;
  } else if constexpr (N == 5) {
    constexpr float c1 = static_cast<float>(cosine(1, 5)), c2 = static_cast<float>(cosine(2, 5));
    constexpr float s1 = static_cast<float>(sine(1, 5)) * (Inverse ? 1 : -1),
                    s2 = static_cast<float>(sine(2, 5)) * (Inverse ? 1 : -1);
    const float2 p = v[1] + v[4], q = v[2] + v[3], d = v[1] - v[4], e = v[2] - v[3], first = v[0];
    const float2 m1 = first + c1 * p + c2 * q, m2 = first + c2 * p + c1 * q;
    const float2 t1 = make_float2(-s1 * d.y - s2 * e.y, s1 * d.x + s2 * e.x),
                 t2 = make_float2(-s2 * d.y + s1 * e.y, s2 * d.x - s1 * e.x);
    v[0] = first + p + q;
    v[1] = m1 + t1;
    v[4] = m1 - t1;
    v[2] = m2 + t2;
    v[3] = m2 - t2;
  } else {
    // j = B a + b, k = k1 + A k2
    constexpr int B = N / A;
    static_assert(A < N, "only products of 2, 3 and 5");
    float2 part[B][A];
    for_each<B>([&](auto b) {
      for_each<A>([&](auto a) { part[b][a] = v[B * a + b]; });
      transform<A, Inverse>(part[b]);
      for_each<A>([&](auto k1) { part[b][k1] = rotate<N, b * k1, Inverse>(part[b][k1]); });
    });
    for_each<A>([&](auto k1) {
      float2 column[B];
      for_each<B>([&](auto b) { column[b] = part[b][k1]; });
      transform<B, Inverse>(column);
      for_each<B>([&](auto k2) { v[k1 + A * k2] = column[k2]; });
    });
  }
}

}  // namespace register_fft
}  // namespace echotrain::numerics::cuda
