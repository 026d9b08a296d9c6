// The Toeplitz step on CUDA, axis by axis, without transforming, storing or reading the zeros of the doubled grid.
//
// The transform of 2M points, of which those from n <= M on are zero, is two transforms of M points: of x for even
// frequencies, of x exp(-i pi j / M) for odd ones. An axis holds its M even frequencies, then its M odd ones. Only the
// last axis to be transformed meets the spectrum: forward, product and inverse are one pass over device memory. A line
// is transformed by the T threads of one block as M = R1 R2: R1 points in each thread's registers, an exchange through
// shared memory, and R2 points.
#pragma once

#include <type_traits>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/transforms/toeplitz/register_fft_cuda.cuh"
#include "gadgets/numerics/transforms/toeplitz/toeplitz_line_passes.cuh"

namespace echotrain::numerics::cuda {

namespace toeplitz_lines {

using register_fft::for_each;

constexpr int first_factor(int m) { return register_fft::outer_factor(m); }

template <int M>
struct Line {
  static constexpr int R1 = first_factor(M), R2 = M / R1;  // R1 >= R2
  static constexpr int T = R2, G = (R1 + R2 - 1) / R2;     // threads of a line; second transforms of a thread
  static_assert(R1 >= R2);
  /// The frequency of a thread's point. Points (thread t, j) before the transform are R2 j + t; frequencies after it:
  /// (t, G, k2) is t + T g + R1 k2, where t + T g < R1.
  __device__ static constexpr int frequency(int t, int g, int k2) { return t + T * g + R1 * k2; }
};

/// The number of blocks that a multiprocessor holds at once. Long lines need the registers of one.
template <int M>
constexpr int blocks_at_once(int wanted) {
  return M > 256 ? 1 : wanted;
}

struct BlockSync {
  __device__ void operator()() const { __syncthreads(); }
};
struct WarpSync {
  __device__ void operator()() const { __syncwarp(); }
};

/// exp(-i pi (2 k1 + odd) b / M), the factors between the two transforms, from global memory.
struct GlobalFactors {
  const float2* roots;
  __device__ float2 operator()(int odd, int k1, int b) const { return __ldg(roots + (2 * k1 + odd) * b); }
};

/// Transforms x[j] of points R2 j + t to w[g R2 + k2], for the even or the odd frequencies of the doubled axis. The odd
/// ones are those of x exp(-i pi j / M), whose factors are known or go with those between the two transforms. slot(k1,
/// b): the place in shared memory for k1 < R1, b < R2.
template <int M, int Odd, class Factors, class Slot, class Sync>
__device__ __forceinline__ void forward(const float2 (&x)[Line<M>::R1], float2 (&w)[Line<M>::G * Line<M>::R2], int t,
                                        const Factors& factors, const Slot& slot, const Sync& sync) {
  using L = Line<M>;
  float2 v[L::R1];
  for_each<L::R1>([&](auto j) { v[j] = register_fft::rotate<2 * L::R1, Odd * j, false>(x[j]); });
  register_fft::transform<L::R1, false>(v);
#pragma unroll
  for (int k1 = 1 - Odd; k1 < L::R1; ++k1) v[k1] = v[k1] * factors(Odd, k1, t);
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

/// Transforms back, unscaled: v = (even) or v += (odd).
template <int M, int Odd, class Factors, class Slot, class Sync>
__device__ __forceinline__ void inverse(const float2 (&w)[Line<M>::G * Line<M>::R2], float2 (&sum)[Line<M>::R1], int t,
                                        const Factors& factors, const Slot& slot, const Sync& sync) {
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
    for (int b = 0; b < L::R2; ++b) slot(k1, b) = b == 0 ? u[b] : u[b] * conjugate(factors(Odd, k1, b));
  }
  sync();
  float2 v[L::R1];
#pragma unroll
  for (int k1 = 0; k1 < L::R1; ++k1) v[k1] = slot(k1, t);
  register_fft::transform<L::R1, true>(v);
  for_each<L::R1>([&](auto j) {
    if constexpr (Odd == 0)
      sum[j] = v[j];
    else
      sum[j] = sum[j] + register_fft::rotate<2 * L::R1, j, true>(v[j]);
  });
}

/// Calls f(register, frequency) for the frequencies that this thread holds.
template <int M, class F>
__device__ __forceinline__ void for_frequencies(int t, const F& f) {
  using L = Line<M>;
#pragma unroll
  for (int g = 0; g < L::G; ++g)
#pragma unroll
    for (int k2 = 0; k2 < L::R2; ++k2)
      if (L::R1 % L::R2 == 0 || t + L::T * g < L::R1) f(g * L::R2 + k2, L::frequency(t, g, k2));
}
/// Calls f(register, point) for the points that this thread holds.
template <int M, class F>
__device__ __forceinline__ void for_points(int t, const F& f) {
#pragma unroll
  for (int j = 0; j < Line<M>::R1; ++j) f(j, Line<M>::R2 * j + t);
}

// --- rows: points side by side

template <int M>
struct Rows {
  using L = Line<M>;
  static constexpr int kRows = 256 / L::T;
  static constexpr int kPitch = L::R2 + 1, kRow = L::R1 * kPitch + (L::T <= 8 ? 8 : 0);
  using Sync = std::conditional_t<32 % L::T == 0, WarpSync, BlockSync>;
  static dim3 threads() { return {L::T, kRows}; }
};

/// from: [lines, n]; to: [lines, 2M]. With maps [lines, n], whose lines are those of all coils, it transforms `from`
/// [image_rows, n] times the maps.
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
  float2 x[L::R1], w[L::G * L::R2];
  for_points<M>(t, [&](int j, int at) {
    x[j] = inside && at < p.n ? from[at] : make_float2(0.0f, 0.0f);
    if (p.maps != nullptr && inside && at < p.n) x[j] = x[j] * p.maps[row * p.n + at];
  });
  float2* to = p.to + row * 2 * M;
  for_each<2>([&](auto odd) {
    forward<M, odd>(x, w, t, GlobalFactors{p.roots}, slot, typename R::Sync());
    for_frequencies<M>(t, [&](int e, int k) {
      if (inside) to[odd * M + k] = w[e];
    });
  });
}

/// from: [lines, 2M]; to: [lines, n]. With maps [coils, lines, n], from: [coils, lines, 2M], and to = or += (add) the
/// sum over coils of conj(maps) times their results, in their order.
template <int M, bool Maps>
__global__ void __launch_bounds__(256, blocks_at_once<M>(Maps ? 1 : 3)) rows_inverse(LinePass p) {
  using L = Line<M>;
  using R = Rows<M>;
  __shared__ float2 exchange[R::kRows * R::kRow];
  const int t = threadIdx.x;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * R::kRows + threadIdx.y;
  float2* own = exchange + threadIdx.y * R::kRow;
  const auto slot = [own](int k1, int b) -> float2& { return own[k1 * R::kPitch + b]; };
  const bool inside = row < p.lines;
  float2 even[L::R1], w[L::G * L::R2];
  const auto line_inverse = [&](std::int64_t line) {
    const float2* from = p.from + line * 2 * M;
    for_each<2>([&](auto odd) {
      for_frequencies<M>(t, [&](int e, int k) { w[e] = inside ? from[odd * M + k] : make_float2(0.0f, 0.0f); });
      inverse<M, odd>(w, even, t, GlobalFactors{p.roots}, slot, typename R::Sync());
    });
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

/// rows_inverse() with maps for few lines: `side` coils of a line side by side, so that the coils of one line are
/// spread over the rows of a block. Sums are those of rows_inverse() to the bit: one thread adds the coils of a voxel,
/// in order.
template <int M>
__global__ void __launch_bounds__(256, blocks_at_once<M>(2)) rows_inverse_side_by_side(LinePass p, int side) {
  using L = Line<M>;
  using R = Rows<M>;
  __shared__ float2 exchange[R::kRows * R::kRow];
  const int t = threadIdx.x, rows = R::kRows / side, n = p.n;
  const int of_block = static_cast<int>(threadIdx.y) / side;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * rows, row = first_row + of_block;
  const bool here = of_block < rows && row < p.lines;
  float2* own = exchange + threadIdx.y * R::kRow;
  const auto slot = [own](int k1, int b) -> float2& { return own[k1 * R::kPitch + b]; };
  float2 even[L::R1], w[L::G * L::R2];
  for (std::int64_t first = 0; first < p.coils; first += side) {
    const std::int64_t coil = first + threadIdx.y % side, line = coil * p.lines + row;
    const bool inside = here && coil < p.coils;
    const float2* from = p.from + line * 2 * M;
    for_each<2>([&](auto odd) {
      for_frequencies<M>(t, [&](int e, int k) { w[e] = inside ? from[odd * M + k] : make_float2(0.0f, 0.0f); });
      inverse<M, odd>(w, even, t, GlobalFactors{p.roots}, slot, typename R::Sync());
    });
    __syncthreads();
    for_points<M>(t, [&](int j, int at) {
      if (inside && at < n) own[at] = even[j] * conjugate(p.maps[line * n + at]);
    });
    __syncthreads();
    const int coils = static_cast<int>(p.coils - first < side ? p.coils - first : side);
    for (int i = static_cast<int>(threadIdx.y) * L::T + t; i < rows * n; i += L::T * R::kRows) {
      const int r = i / n, at = i % n;
      if (first_row + r >= p.lines) break;
      float2& to = p.to[(first_row + r) * n + at];
      float2 sum = p.add || first > 0 ? to : make_float2(0.0f, 0.0f);
      for (int c = 0; c < coils; ++c) sum = sum + exchange[(r * side + c) * R::kRow + at];
      to = sum;
    }
    __syncthreads();
  }
}

/// The number of coils of a line that a block takes side by side: as many as give enough blocks.
template <int M>
int coils_side_by_side(const LinePass& p) {
  constexpr std::int64_t kEnoughBlocks = 512;
  int side = 1;
  while (2 * side <= Rows<M>::kRows && side < p.coils && p.lines < kEnoughBlocks * (Rows<M>::kRows / side)) side *= 2;
  return side;
}

// --- columns: lines side by side

constexpr int kColumns = 16;  // columns of a block, side by side: 128 bytes
template <int M>
constexpr int kColumnsAround = M > 128 ? 16 : 32;  // as many as shared memory has room for

/// The place of a thread in a block of columns. `lines` is a multiple of C: 2M of the axes before.
template <int M, int C = kColumns>
struct Columns {
  using L = Line<M>;
  static constexpr int kThreadsOf = L::T * C;
  static dim3 threads() { return {C, L::T}; }

  float2* own;      ///< the thread's part of shared memory
  int t;            ///< number of the thread in the line
  unsigned lines;   ///< distance between points of a line
  unsigned column;  ///< the line
  std::int64_t item;

  __device__ Columns(const LinePass& p, float2* exchange)
      : own(exchange + threadIdx.x), t(threadIdx.y), lines(static_cast<unsigned>(p.lines)) {
    const unsigned tiles = lines / C;
    item = blockIdx.x / tiles;
    column = blockIdx.x % tiles * C + threadIdx.x;
  }
  /// Prefetches these rows [.., lines] for the block's columns.
  template <class T>
  __device__ void prefetch(const T* base, int first, int rows) const {
    static_assert(C * sizeof(T) <= 128, "a row is in one line of the cache");
    for (int row = static_cast<int>(threadIdx.y) * C + static_cast<int>(threadIdx.x); row < rows; row += kThreadsOf)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(base + (first + row) * static_cast<std::int64_t>(lines) + column -
                                                    threadIdx.x));
  }
  __device__ float2& slot(int k1, int b) const { return own[(k1 * L::R2 + b) * C]; }
  /// x[j] = this thread's points of a line of n, zero beyond.
  __device__ void load(const float2* base, int n, float2 (&x)[L::R1]) const {
    const float2* from = base + (item * n * lines + (t * lines + column));
#pragma unroll
    for (int j = 0; j < L::R1; ++j) x[j] = L::R2 * j + t < n ? from[j * (L::R2 * lines)] : make_float2(0.0f, 0.0f);
  }
  __device__ void store(float2* base, int n, const float2 (&x)[L::R1]) const {
    float2* to = base + (item * n * lines + (t * lines + column));
#pragma unroll
    for (int j = 0; j < L::R1; ++j)
      if (L::R2 * j + t < n) to[j * (L::R2 * lines)] = x[j];
  }
  /// Calls f(register, offset) for the frequencies of one parity that this thread holds, with offsets from the item's
  /// first element.
  template <class F>
  __device__ __forceinline__ void frequencies(int odd, const F& f) const {
    const unsigned first = (odd * M + t) * lines + column;
#pragma unroll
    for (int g = 0; g < L::G; ++g)
#pragma unroll
      for (int k2 = 0; k2 < L::R2; ++k2)
        if (L::R1 % L::R2 == 0 || t + L::T * g < L::R1) f(g * L::R2 + k2, first + (L::T * g + L::R1 * k2) * lines);
  }
};

/// from: [items, n, lines]; to: [items, 2M, lines].
template <int M>
__global__ void __launch_bounds__(Columns<M>::kThreadsOf) columns_forward(LinePass p) {
  using L = Line<M>;
  __shared__ float2 exchange[L::R1 * L::R2 * kColumns];
  const Columns<M> c(p, exchange);
  const auto slot = [&c](int k1, int b) -> float2& { return c.slot(k1, b); };
  float2* to = p.to + c.item * 2 * M * p.lines;
  float2 x[L::R1], w[L::G * L::R2];
  c.load(p.from, p.n, x);
  for_each<2>([&](auto odd) {
    forward<M, odd>(x, w, c.t, GlobalFactors{p.roots}, slot, BlockSync());
    c.frequencies(odd, [&](int e, unsigned at) { to[at] = w[e]; });
  });
}

/// from: [items, 2M, lines]; to: [items, n, lines].
template <int M>
__global__ void __launch_bounds__(Columns<M>::kThreadsOf, blocks_at_once<M>(768 / Columns<M>::kThreadsOf))
    columns_inverse(LinePass p) {
  using L = Line<M>;
  __shared__ float2 exchange[L::R1 * L::R2 * kColumns];
  const Columns<M> c(p, exchange);
  const auto slot = [&c](int k1, int b) -> float2& { return c.slot(k1, b); };
  const float2* from = p.from + c.item * 2 * M * p.lines;
  float2 sum[L::R1], w[L::G * L::R2];
  c.prefetch(from, M, M);
  for_each<2>([&](auto odd) {
    c.frequencies(odd, [&](int e, unsigned at) { w[e] = from[at]; });
    inverse<M, odd>(w, sum, c.t, GlobalFactors{p.roots}, slot, BlockSync());
  });
  c.store(p.to, p.n, sum);
}

/// from, to: [items, n, lines], may be the same; spectrum: [2M, lines]. Transforms forward, times the spectrum, and
/// back.
template <int M>
__global__ void __launch_bounds__(Columns<M, kColumnsAround<M>>::kThreadsOf,
                                  blocks_at_once<M>(512 / Columns<M, kColumnsAround<M>>::kThreadsOf))
    columns_around(LinePass p) {
  using L = Line<M>;
  __shared__ float2 exchange[L::R1 * L::R2 * kColumnsAround<M>];
  const Columns<M, kColumnsAround<M>> c(p, exchange);
  const auto slot = [&c](int k1, int b) -> float2& { return c.slot(k1, b); };
  float2 x[L::R1], sum[L::R1], w[L::G * L::R2];
  c.load(p.from, p.n, x);
  c.prefetch(p.spectrum, 0, 2 * M);
  for_each<2>([&](auto odd) {
    forward<M, odd>(x, w, c.t, GlobalFactors{p.roots}, slot, BlockSync());
    c.frequencies(odd, [&](int e, unsigned at) { w[e] = __ldg(p.spectrum + at) * w[e]; });
    inverse<M, odd>(w, sum, c.t, GlobalFactors{p.roots}, slot, BlockSync());
  });
  c.store(p.to, p.n, sum);
}

template <int M>
unsigned row_blocks(const LinePass& p, int side = 1) {
  const int rows = Rows<M>::kRows / side;
  return static_cast<unsigned>((p.lines + rows - 1) / rows);
}
inline unsigned column_blocks(const LinePass& p, int columns) {
  return static_cast<unsigned>(p.lines / columns * p.items);
}

}  // namespace toeplitz_lines

template <int M>
LineKernels line_kernels() {
  static_assert(2 * M % toeplitz_lines::kColumnsAround<M> == 0, "blocks are full");
  namespace t = toeplitz_lines;
  return {
      [](const LinePass& p, cudaStream_t s) {
        t::rows_forward<M><<<t::row_blocks<M>(p), t::Rows<M>::threads(), 0, s>>>(p);
      },
      [](const LinePass& p, cudaStream_t s) {
        if (p.maps == nullptr)
          t::rows_inverse<M, false><<<t::row_blocks<M>(p), t::Rows<M>::threads(), 0, s>>>(p);
        else if (const int side = t::coils_side_by_side<M>(p); side > 1)
          t::rows_inverse_side_by_side<M><<<t::row_blocks<M>(p, side), t::Rows<M>::threads(), 0, s>>>(p, side);
        else
          t::rows_inverse<M, true><<<t::row_blocks<M>(p), t::Rows<M>::threads(), 0, s>>>(p);
      },
      [](const LinePass& p, cudaStream_t s) {
        t::columns_forward<M><<<t::column_blocks(p, t::kColumns), t::Columns<M>::threads(), 0, s>>>(p);
      },
      [](const LinePass& p, cudaStream_t s) {
        t::columns_inverse<M><<<t::column_blocks(p, t::kColumns), t::Columns<M>::threads(), 0, s>>>(p);
      },
      [](const LinePass& p, cudaStream_t s) {
        const dim3 threads = t::Columns<M, t::kColumnsAround<M>>::threads();
        t::columns_around<M><<<t::column_blocks(p, t::kColumnsAround<M>), threads, 0, s>>>(p);
      },
  };
}

}  // namespace echotrain::numerics::cuda
