// Inverse transforms of a length known at compile time: a short one in a thread's registers, and their products.
#pragma once

#include <cstdint>

namespace echotrain::numerics::cuda {

/// exp(2 pi i k / N), from the series of sine and cosine.
template <int N>
struct Roots {
  float re[N], im[N];
  __host__ __device__ constexpr Roots() : re{}, im{} {
    for (int k = 0; k < N; ++k) {
      const double x = 2 * 3.14159265358979323846 * (2 * k > N ? k - N : k) / N;
      double term = 1, cosine = 0, sine = 0;
      for (int n = 0; n < 32; n += 4) {
        cosine += term;
        term *= x / (n + 1);
        sine += term;
        term *= x / (n + 2);
        cosine -= term;
        term *= x / (n + 3);
        sine -= term;
        term *= x / (n + 4);
      }
      re[k] = static_cast<float>(cosine);
      im[k] = static_cast<float>(sine);
    }
  }
};

__device__ __forceinline__ float2 add(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ float2 subtract(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ float2 times(float2 a, float re, float im) {
  return make_float2(a.x * re - a.y * im, a.x * im + a.y * re);
}

/// v[k] becomes the sum over n of v[n] exp(2 pi i n k / N).
template <int N>
__device__ __forceinline__ void transform_in_registers(float2 (&v)[N]) {
  if constexpr (N == 2) {
    const float2 first = v[0];
    v[0] = add(first, v[1]);
    v[1] = subtract(first, v[1]);
  } else if constexpr (N == 4) {
    const float2 a = add(v[0], v[2]), b = subtract(v[0], v[2]), c = add(v[1], v[3]), d = subtract(v[1], v[3]);
    v[0] = add(a, c);
    v[1] = make_float2(b.x - d.y, b.y + d.x);
    v[2] = subtract(a, c);
    v[3] = make_float2(b.x + d.y, b.y - d.x);
  } else if constexpr (N == 3 || N == 5 || N == 7) {
    constexpr Roots<N> roots;
    constexpr int kHalf = N / 2;
    float2 sums[kHalf], differences[kHalf], all = v[0];
#pragma unroll
    for (int j = 0; j < kHalf; ++j) {
      sums[j] = add(v[j + 1], v[N - 1 - j]);
      differences[j] = subtract(v[j + 1], v[N - 1 - j]);
      all = add(all, sums[j]);
    }
#pragma unroll
    for (int k = 1; k <= kHalf; ++k) {
      float2 even = v[0], odd = make_float2(0, 0);
#pragma unroll
      for (int j = 0; j < kHalf; ++j) {
        const float cosine = roots.re[(j + 1) * k % N], sine = roots.im[(j + 1) * k % N];
        even.x += cosine * sums[j].x;
        even.y += cosine * sums[j].y;
        odd.x += sine * differences[j].x;
        odd.y += sine * differences[j].y;
      }
      v[k] = make_float2(even.x - odd.y, even.y + odd.x);
      v[N - k] = make_float2(even.x + odd.y, even.y - odd.x);
    }
    v[0] = all;
  } else {
    // Splits n = n1 B + n2 and k = k1 + A k2.
    constexpr Roots<N> roots;
    constexpr int A = N % 4 == 0 ? 4 : N % 2 == 0 ? 2 : N % 3 == 0 ? 3 : 5, B = N / A;
    static_assert(A * B == N);
    float2 parts[A][B];
#pragma unroll
    for (int n2 = 0; n2 < B; ++n2) {
      float2 part[A];
#pragma unroll
      for (int n1 = 0; n1 < A; ++n1) part[n1] = v[n1 * B + n2];
      transform_in_registers<A>(part);
#pragma unroll
      for (int k1 = 0; k1 < A; ++k1)
        parts[k1][n2] = k1 * n2 == 0 ? part[k1] : times(part[k1], roots.re[k1 * n2], roots.im[k1 * n2]);
    }
#pragma unroll
    for (int k1 = 0; k1 < A; ++k1) {
      transform_in_registers<B>(parts[k1]);
#pragma unroll
      for (int k2 = 0; k2 < B; ++k2) v[k1 + A * k2] = parts[k1][k2];
    }
  }
}

/// The transform of a line of N1 N2 points by several threads: each transforms N1 points n = n1 N2 + n2 of one n2,
/// multiplies by exp(2 pi i n2 k1 / N), and then N2 points of one k1, which become k = k1 + N1 k2. In between, all
/// points of a block's lines are in shared memory.
template <int N1, int N2, bool Rows>
struct Lines {
  static_assert(N1 <= N2);
  static constexpr int kPoints = N1 * N2;
  static constexpr int kLines = 8;  ///< lines of a block: neighbours, so that in columns each access reads 64 bytes
  static constexpr int kThreads = kLines * N2;
  /// Blocks per multiprocessor: so few that registers suffice for a short transform.
  static constexpr int kBlocks = 65536 / (kThreads * (2 * N2 + 48));
  // The strides put simultaneous accesses of a warp into different banks.
  static constexpr int kOfRow = N2 | 1;
  static constexpr int kExchanged = Rows ? kLines * N1 * kOfRow : N1 * (N2 + 1) * kLines;
  static constexpr int kBytes = (kExchanged + kPoints) * static_cast<int>(sizeof(float2));
  __device__ static __forceinline__ int at(int line, int k1, int n2) {
    return Rows ? (line * N1 + k1) * kOfRow + n2 : (k1 * (N2 + 1) + n2) * kLines + line;
  }
};

/// Transforms a block's lines. load(line, n) reads a point from memory, prepare(line, n, value) turns it into the
/// transform's input, store(line, k, value) takes a result. All threads of the block call this; a thread prepares
/// nothing before it has begun to load all of its points, and nothing is stored before all is loaded.
template <int N1, int N2, bool Rows, class Load, class Prepare, class Store>
__device__ __forceinline__ void transform_lines(float2* shared, const Load& load, const Prepare& prepare,
                                                const Store& store) {
  using L = Lines<N1, N2, Rows>;
  float2* const exchanged = shared;
  float2* const waves = shared + L::kExchanged;  // [k1, n2]
  const auto thread = static_cast<int>(threadIdx.x);
  {
    const int line = Rows ? thread / N2 : thread % L::kLines, n2 = Rows ? thread % N2 : thread / L::kLines;
    float2 v[N1];
#pragma unroll
    for (int n1 = 0; n1 < N1; ++n1) v[n1] = load(line, n1 * N2 + n2);
    for (int i = thread; i < L::kPoints; i += L::kThreads) {
      const int turn = i / N2 * (i % N2), around = 2 * turn > L::kPoints ? turn - L::kPoints : turn;
      float2 wave;
      sincospif(static_cast<float>(2 * around) / static_cast<float>(L::kPoints), &wave.y, &wave.x);
      waves[i] = wave;
    }
    __syncthreads();
#pragma unroll
    for (int n1 = 0; n1 < N1; ++n1) v[n1] = prepare(line, n1 * N2 + n2, v[n1]);
    transform_in_registers<N1>(v);
#pragma unroll
    for (int k1 = 0; k1 < N1; ++k1) {
      const float2 wave = waves[k1 * N2 + n2];
      exchanged[L::at(line, k1, n2)] = times(v[k1], wave.x, wave.y);
    }
  }
  __syncthreads();
  const int line = Rows ? thread / N1 : thread % L::kLines, k1 = Rows ? thread % N1 : thread / L::kLines;
  if (Rows ? line >= L::kLines : k1 >= N1) return;
  float2 v[N2];
#pragma unroll
  for (int n2 = 0; n2 < N2; ++n2) v[n2] = exchanged[L::at(line, k1, n2)];
  transform_in_registers<N2>(v);
#pragma unroll
  for (int k2 = 0; k2 < N2; ++k2) store(line, k1 + N1 * k2, v[k2]);
}

}  // namespace echotrain::numerics::cuda
