// The Toeplitz step on CUDA, axis by axis, without transforming, storing or reading the zeros of the doubled grid.
//
// The transform of 2M points, of which those from n <= M on are zero, is two transforms of M points: of x for even
// frequencies, of x exp(-i pi j / M) for odd ones. An axis holds its M even frequencies, then its M odd ones. Only the
// last axis to be transformed meets the spectrum: forward, product and inverse are one pass over device memory. A line
// is transformed by the T threads of one block as M = R1 R2: R1 points in each thread's registers, an exchange
// through shared memory, and R2 points.
#pragma once

#include <type_traits>

#include "gadgets/numerics/cuda_support.cuh"
#include "gadgets/numerics/register_fft_cuda.cuh"
#include "gadgets/numerics/toeplitz_lines_cuda.h"

namespace echotrain::numerics::cuda {

namespace toeplitz_lines {

using register_fft::for_each;

constexpr int first_factor(int m) { return register_fft::outer_factor(m); }

template <int M>
struct Line {
  static constexpr int R1 = first_factor(M), R2 = M / R1;  // R1 >= R2
  static constexpr int T = R2, G = (R1 + R2 - 1) / R2;     // threads of a line; second transforms of a thread
  static_assert(R1 >= R2);
  /// Points (thread t, j) before are R2 j + t; frequencies after: (t, G, k2) is t + T g + R1 k2, where t + T g < R1.
  __device__ static constexpr int frequency(int t, int g, int k2) { return t + T * g + R1 * k2; }
};

struct BlockSync {
  __device__ void operator()() const { __syncthreads(); }
};
struct WarpSync {
  __device__ void operator()() const { __syncwarp(); }
};

/// v[j] = x[R2 j + t] to w[g R2 + k2]. slot(k1, b): the place in shared memory for k1 < R1, b < R2.
template <int M, class Slot, class Sync>
__device__ __forceinline__ void forward(float2 (&v)[Line<M>::R1], float2 (&w)[Line<M>::G * Line<M>::R2], int t,
                                        const float2* roots, const Slot& slot, const Sync& sync) {
  using L = Line<M>;
  register_fft::transform<L::R1, false>(v);
#pragma unroll
  for (int k1 = 1; k1 < L::R1; ++k1) v[k1] = v[k1] * __ldg(roots + 2 * k1 * t);
  sync();
#pragma unroll
  for (int k1 = 0; k1 < L::R1; ++k1) slot(k1, t) = v[k1];
  sync();
#pragma unroll
  for (int g = 0; g < L::G; ++g) {
    const int k1 = t + L::T * g;
    if (L::R1 % L::R2 != 0 && k1 >= L::R1) continue;
    float2 u[L::R2];
#pragma unroll
    for (int b = 0; b < L::R2; ++b) u[b] = slot(k1, b);
    register_fft::transform<L::R2, false>(u);
#pragma unroll
    for (int k2 = 0; k2 < L::R2; ++k2) w[g * L::R2 + k2] = u[k2];
  }
}

/// And back, unscaled.
template <int M, class Slot, class Sync>
__device__ __forceinline__ void inverse(float2 (&w)[Line<M>::G * Line<M>::R2], float2 (&v)[Line<M>::R1], int t,
                                        const float2* roots, const Slot& slot, const Sync& sync) {
  using L = Line<M>;
  sync();
#pragma unroll
  for (int g = 0; g < L::G; ++g) {
    const int k1 = t + L::T * g;
    if (L::R1 % L::R2 != 0 && k1 >= L::R1) continue;
    float2 u[L::R2];
#pragma unroll
    for (int k2 = 0; k2 < L::R2; ++k2) u[k2] = w[g * L::R2 + k2];
    register_fft::transform<L::R2, true>(u);
#pragma unroll
    for (int b = 0; b < L::R2; ++b) slot(k1, b) = b == 0 ? u[b] : u[b] * conjugate(__ldg(roots + 2 * k1 * b));
  }
  sync();
#pragma unroll
  for (int k1 = 0; k1 < L::R1; ++k1) v[k1] = slot(k1, t);
  register_fft::transform<L::R1, true>(v);
}

/// f(register, frequency) for the frequencies that this thread holds.
template <int M, class F>
__device__ __forceinline__ void for_frequencies(int t, const F& f) {
  using L = Line<M>;
#pragma unroll
  for (int g = 0; g < L::G; ++g)
#pragma unroll
    for (int k2 = 0; k2 < L::R2; ++k2)
      if (L::R1 % L::R2 == 0 || t + L::T * g < L::R1) f(g * L::R2 + k2, L::frequency(t, g, k2));
}
/// f(register, point) for the points that this thread holds.
template <int M, class F>
__device__ __forceinline__ void for_points(int t, const F& f) {
#pragma unroll
  for (int j = 0; j < Line<M>::R1; ++j) f(j, Line<M>::R2 * j + t);
}

// --- rows: points side by side
// ----------------------------------------------------------------------------------------

template <int M>
struct Rows {
  using L = Line<M>;
  static constexpr int kRows = 256 / L::T;
  static constexpr int kPitch = L::R2 + 1, kRow = L::R1 * kPitch + (L::T <= 8 ? 8 : 0);
  using Sync = std::conditional_t<32 % L::T == 0, WarpSync, BlockSync>;
  static dim3 threads() { return {L::T, kRows}; }
};

/// from: [lines, n]; to: [lines, 2M]. With maps [lines, n], whose lines are those of all coils: from [image_rows, n]
/// times them.
template <int M>
__global__ void __launch_bounds__(256) rows_forward(LinePass p) {
  using L = Line<M>;
  using R = Rows<M>;
  __shared__ float2 exchange[R::kRows * R::kRow];
  const int t = threadIdx.x;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * R::kRows + threadIdx.y;
  float2* own = exchange + threadIdx.y * R::kRow;
  const auto slot = [own](int k1, int b) -> float2& { return own[k1 * R::kPitch + b]; };
  const bool inside = row < p.lines;
  const float2* from = p.from + (p.maps == nullptr ? row : row % p.image_rows) * p.n;
  float2 x[L::R1], v[L::R1], w[L::G * L::R2];
  for_points<M>(t, [&](int j, int at) {
    x[j] = inside && at < p.n ? from[at] : make_float2(0.0f, 0.0f);
    if (p.maps != nullptr && inside && at < p.n) x[j] = x[j] * p.maps[row * p.n + at];
  });
  float2* to = p.to + row * 2 * M;
#pragma unroll
  for (int odd = 0; odd < 2; ++odd) {
    for_points<M>(t, [&](int j, int at) { v[j] = odd == 0 ? x[j] : x[j] * __ldg(p.roots + at); });
    forward<M>(v, w, t, p.roots, slot, typename R::Sync());
    for_frequencies<M>(t, [&](int e, int k) {
      if (inside) to[odd * M + k] = w[e];
    });
  }
}

/// from: [lines, 2M]; to: [lines, n]. With maps [coils, lines, n]: from [coils, lines, 2M]; to = or += (add) the sum
/// over the coils of conj(maps) times theirs, in their order.
template <int M, bool Maps>
__global__ void __launch_bounds__(256) rows_inverse(LinePass p) {
  using L = Line<M>;
  using R = Rows<M>;
  __shared__ float2 exchange[R::kRows * R::kRow];
  const int t = threadIdx.x;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * R::kRows + threadIdx.y;
  float2* own = exchange + threadIdx.y * R::kRow;
  const auto slot = [own](int k1, int b) -> float2& { return own[k1 * R::kPitch + b]; };
  const bool inside = row < p.lines;
  float2 even[L::R1], v[L::R1], w[L::G * L::R2];
  const auto line_inverse = [&](std::int64_t line) {
    const float2* from = p.from + line * 2 * M;
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      for_frequencies<M>(t, [&](int e, int k) { w[e] = inside ? from[odd * M + k] : make_float2(0.0f, 0.0f); });
      inverse<M>(w, v, t, p.roots, slot, typename R::Sync());
      for_points<M>(
          t, [&](int j, int at) { even[j] = odd == 0 ? v[j] : even[j] + v[j] * conjugate(__ldg(p.roots + at)); });
    }
  };
  if constexpr (Maps) {
    float2 sum[L::R1];
    for_points<M>(t, [&](int j, int at) {
      sum[j] = p.add && inside && at < p.n ? p.to[row * p.n + at] : make_float2(0.0f, 0.0f);
    });
    for (std::int64_t coil = 0; coil < p.coils; ++coil) {
      const std::int64_t line = coil * p.lines + row;
      line_inverse(line);
      for_points<M>(t, [&](int j, int at) {
        if (inside && at < p.n) sum[j] = sum[j] + even[j] * conjugate(p.maps[line * p.n + at]);
      });
    }
    for_points<M>(t, [&](int j, int at) { even[j] = sum[j]; });
  } else {
    line_inverse(row);
  }
  for_points<M>(t, [&](int j, int at) {
    if (inside && at < p.n) p.to[row * p.n + at] = even[j];
  });
}

// --- columns: lines side by side
// ---------------------------------------------------------------------------------------

constexpr int kColumns = 16;  // of a block, side by side: 128 bytes

template <int M>
struct Columns {
  using L = Line<M>;
  static constexpr int kThreadsOf = L::T * kColumns;
  static dim3 threads() { return {kColumns, L::T}; }
  float2* own;
  int t;
  std::int64_t column, item;
  bool inside;
  __device__ explicit Columns(const LinePass& p, float2* exchange) : own(exchange + threadIdx.x), t(threadIdx.y) {
    const std::int64_t tiles = (p.lines + kColumns - 1) / kColumns;
    item = blockIdx.x / tiles;
    column = blockIdx.x % tiles * kColumns + threadIdx.x;
    inside = column < p.lines;
  }
  __device__ float2& slot(int k1, int b) const { return own[(k1 * L::R2 + b) * kColumns]; }
};

/// from: [items, n, lines]; to: [items, 2M, lines].
template <int M>
__global__ void __launch_bounds__(Columns<M>::kThreadsOf) columns_forward(LinePass p) {
  using L = Line<M>;
  __shared__ float2 exchange[L::R1 * L::R2 * kColumns];
  const Columns<M> c(p, exchange);
  const auto slot = [&c](int k1, int b) -> float2& { return c.slot(k1, b); };
  const float2* from = p.from + c.item * p.n * p.lines + c.column;
  float2* to = p.to + c.item * 2 * M * p.lines + c.column;
  float2 x[L::R1], v[L::R1], w[L::G * L::R2];
  for_points<M>(c.t,
                [&](int j, int at) { x[j] = c.inside && at < p.n ? from[at * p.lines] : make_float2(0.0f, 0.0f); });
#pragma unroll
  for (int odd = 0; odd < 2; ++odd) {
    for_points<M>(c.t, [&](int j, int at) { v[j] = odd == 0 ? x[j] : x[j] * __ldg(p.roots + at); });
    forward<M>(v, w, c.t, p.roots, slot, BlockSync());
    for_frequencies<M>(c.t, [&](int e, int k) {
      if (c.inside) to[(odd * M + k) * p.lines] = w[e];
    });
  }
}

/// from: [items, 2M, lines]; to: [items, n, lines].
template <int M>
__global__ void __launch_bounds__(Columns<M>::kThreadsOf) columns_inverse(LinePass p) {
  using L = Line<M>;
  __shared__ float2 exchange[L::R1 * L::R2 * kColumns];
  const Columns<M> c(p, exchange);
  const auto slot = [&c](int k1, int b) -> float2& { return c.slot(k1, b); };
  const float2* from = p.from + c.item * 2 * M * p.lines + c.column;
  float2* to = p.to + c.item * p.n * p.lines + c.column;
  float2 sum[L::R1], v[L::R1], w[L::G * L::R2];
#pragma unroll
  for (int odd = 0; odd < 2; ++odd) {
    for_frequencies<M>(
        c.t, [&](int e, int k) { w[e] = c.inside ? from[(odd * M + k) * p.lines] : make_float2(0.0f, 0.0f); });
    inverse<M>(w, v, c.t, p.roots, slot, BlockSync());
    for_points<M>(c.t,
                  [&](int j, int at) { sum[j] = odd == 0 ? v[j] : sum[j] + v[j] * conjugate(__ldg(p.roots + at)); });
  }
  for_points<M>(c.t, [&](int j, int at) {
    if (c.inside && at < p.n) to[at * p.lines] = sum[j];
  });
}

/// from, to: [items, n, lines], may be the same; spectrum: [2M, lines]. Forward, times the spectrum, and back.
template <int M>
__global__ void __launch_bounds__(Columns<M>::kThreadsOf) columns_around(LinePass p) {
  using L = Line<M>;
  __shared__ float2 exchange[L::R1 * L::R2 * kColumns];
  const Columns<M> c(p, exchange);
  const auto slot = [&c](int k1, int b) -> float2& { return c.slot(k1, b); };
  const float2* from = p.from + c.item * p.n * p.lines + c.column;
  float2* to = p.to + c.item * p.n * p.lines + c.column;
  const float* spectrum = p.spectrum + c.column;
  float2 x[L::R1], sum[L::R1], v[L::R1], w[L::G * L::R2];
  for_points<M>(c.t,
                [&](int j, int at) { x[j] = c.inside && at < p.n ? from[at * p.lines] : make_float2(0.0f, 0.0f); });
#pragma unroll
  for (int odd = 0; odd < 2; ++odd) {
    for_points<M>(c.t, [&](int j, int at) { v[j] = odd == 0 ? x[j] : x[j] * __ldg(p.roots + at); });
    forward<M>(v, w, c.t, p.roots, slot, BlockSync());
    for_frequencies<M>(
        c.t, [&](int e, int k) { w[e] = (c.inside ? __ldg(spectrum + (odd * M + k) * p.lines) : 0.0f) * w[e]; });
    inverse<M>(w, v, c.t, p.roots, slot, BlockSync());
    for_points<M>(c.t,
                  [&](int j, int at) { sum[j] = odd == 0 ? v[j] : sum[j] + v[j] * conjugate(__ldg(p.roots + at)); });
  }
  for_points<M>(c.t, [&](int j, int at) {
    if (c.inside && at < p.n) to[at * p.lines] = sum[j];
  });
}

template <int M>
unsigned row_blocks(const LinePass& p) {
  return static_cast<unsigned>((p.lines + Rows<M>::kRows - 1) / Rows<M>::kRows);
}
inline unsigned column_blocks(const LinePass& p) {
  return static_cast<unsigned>((p.lines + kColumns - 1) / kColumns * p.items);
}

}  // namespace toeplitz_lines

template <int M>
LineKernels line_kernels() {
  namespace t = toeplitz_lines;
  return {
      [](const LinePass& p, cudaStream_t s) {
        t::rows_forward<M><<<t::row_blocks<M>(p), t::Rows<M>::threads(), 0, s>>>(p);
      },
      [](const LinePass& p, cudaStream_t s) {
        if (p.maps == nullptr)
          t::rows_inverse<M, false><<<t::row_blocks<M>(p), t::Rows<M>::threads(), 0, s>>>(p);
        else
          t::rows_inverse<M, true><<<t::row_blocks<M>(p), t::Rows<M>::threads(), 0, s>>>(p);
      },
      [](const LinePass& p, cudaStream_t s) {
        t::columns_forward<M><<<t::column_blocks(p), t::Columns<M>::threads(), 0, s>>>(p);
      },
      [](const LinePass& p, cudaStream_t s) {
        t::columns_inverse<M><<<t::column_blocks(p), t::Columns<M>::threads(), 0, s>>>(p);
      },
      [](const LinePass& p, cudaStream_t s) {
        t::columns_around<M><<<t::column_blocks(p), t::Columns<M>::threads(), 0, s>>>(p);
      },
  };
}

}  // namespace echotrain::numerics::cuda
