// The Toeplitz step of volumes whose planes [y, x] fit into shared memory: three passes over device memory. One goes
// along z, as those of columns do; a block then takes a plane of one frequency along z, transforms one parity of the
// frequencies along x, both parities along y, which it multiplies by the spectrum, and goes back; the last goes along z
// again. In a plane, lines are transformed by eight threads of one warp, four lines at a time, so that blocks wait
// for all their warps only between x and y.
#include <type_traits>

#include "gadgets/numerics/cuda/early_launch.cuh"
#include "gadgets/numerics/toeplitz/toeplitz_lines_cuda.cuh"

namespace echotrain::numerics::cuda {
namespace {

using toeplitz_lines::BlockSync;
using toeplitz_lines::for_frequencies;
using toeplitz_lines::for_points;
using toeplitz_lines::forward;
using toeplitz_lines::GlobalFactors;
using toeplitz_lines::inverse;
using toeplitz_lines::kColumns;
using toeplitz_lines::Line;
using toeplitz_lines::WarpSync;

template <int M>
struct Plane {
  using L = Line<M>;
  static_assert(L::T == 8 && M % 4 == 0, "eight threads a line, four lines a warp");
  /// Elements between k1 and k1 + 1 where a line exchanges, and of a whole line then.
  static constexpr int kSlot = L::R2 + 1, kLine = L::R1 * kSlot;
  /// Elements between lines along x: 4 beyond a multiple of 16, so that the 16 threads that shared memory serves at
  /// once meet all its banks: two lines along x two apart and eight threads, or four lines along y and four threads.
  static constexpr int kPitch = (kLine + 11) / 16 * 16 + 4;
  static constexpr int kFactors = 2 * L::R1 * kSlot;
  static constexpr int kGroups = M / 4, kWarps = kGroups > 16 ? kGroups / 2 : kGroups;
  static constexpr int kThreadsOf = 32 * kWarps;
  static constexpr int kBytes = (kLine * kPitch + kFactors) * static_cast<int>(sizeof(float2));
  static constexpr PlaneOrder kOrder{M, L::R1, L::R2};
  static constexpr int kOfParity = static_cast<int>(PlaneOrder{M, L::R1, L::R2}.size() / 2);
};

/// The factors from shared memory.
template <int M>
struct SharedFactors {
  const float2* table;
  __device__ float2 operator()(int odd, int k1, int b) const {
    return table[(odd * Line<M>::R1 + k1) * Plane<M>::kSlot + b];
  }
};

template <class T>
__device__ void prefetch_to_l2(const T* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

/// What a thread of a plane's block knows.
template <int M>
struct PlaneThread {
  using L = Line<M>;
  using P = Plane<M>;
  float2* plane;
  SharedFactors<M> factors;
  int ny, nx, lane, warp;

  /// Rows: threads 0 to 7 of a warp are on one line.
  __device__ int row_t() const { return lane % 8; }
  __device__ int row_of(int group) const { return 4 * group + (lane / 8 % 2) * 2 + lane / 16; }

  /// Lines along x of `from` to frequencies of one parity, in shared memory.
  template <int Odd>
  __device__ __forceinline__ void rows_forward(const float2* from) const {
    const int t = row_t();
#pragma unroll 1
    for (int group = warp; 4 * group < ny; group += P::kWarps) {
      const int row = row_of(group);
      float2* const own = plane + row * P::kPitch;
      float2 x[L::R1], w[L::G * L::R2];
      for_points<M>(t,
                    [&](int j, int at) { x[j] = row < ny && at < nx ? from[row * nx + at] : make_float2(0.0f, 0.0f); });
      forward<M, Odd>(
          x, w, t, factors, [own](int k1, int b) -> float2& { return own[k1 * P::kSlot + b]; }, WarpSync());
      __syncwarp();
      for_frequencies<M>(t, [&](int e, int k) { own[k] = w[e]; });
    }
  }

  /// And back. to = those (even) or += (odd, where `add`).
  template <int Odd>
  __device__ __forceinline__ void rows_inverse(float2* to, bool add) const {
    const int t = row_t();
#pragma unroll 1
    for (int group = warp; 4 * group < ny; group += P::kWarps) {
      const int row = row_of(group);
      float2* const own = plane + row * P::kPitch;
      float2 sum[L::R1], w[L::G * L::R2];
      if constexpr (Odd == 1)
        for_points<M>(t, [&](int j, int at) {
          sum[j] = add && row < ny && at < nx ? to[row * nx + at] : make_float2(0.0f, 0.0f);
        });
      for_frequencies<M>(t, [&](int e, int k) { w[e] = own[k]; });
      inverse<M, Odd>(
          w, sum, t, factors, [own](int k1, int b) -> float2& { return own[k1 * P::kSlot + b]; }, WarpSync());
      for_points<M>(t, [&](int j, int at) {
        if (row < ny && at < nx) to[row * nx + at] = sum[j];
      });
    }
  }

  /// Lines along y: forward, times the spectrum, and back, in shared memory.
  __device__ __forceinline__ void columns(const float* spectrum) const {
    const int t = lane / 4;
#pragma unroll 1
    for (int group = warp; group < P::kGroups; group += P::kWarps) {
      float2* const own = plane + 4 * group + lane % 4;
      const auto slot = [own](int k1, int b) -> float2& { return own[(k1 * P::kSlot + b) * P::kPitch]; };
      float2 x[L::R1], sum[L::R1], w[L::G * L::R2];
      for_points<M>(t, [&](int j, int at) { x[j] = at < ny ? own[at * P::kPitch] : make_float2(0.0f, 0.0f); });
      toeplitz_lines::for_each<2>([&](auto odd) {
        const float* const of_warp = spectrum + (odd * P::kGroups + group) * (L::G * L::R2 * 32) + 4 * lane;
        forward<M, odd>(x, w, t, factors, slot, WarpSync());
#pragma unroll
        for (int e = 0; e < L::G * L::R2; e += 4) {
          const float4 q = __ldg(reinterpret_cast<const float4*>(of_warp + 32 * e));
          w[e] = q.x * w[e];
          w[e + 1] = q.y * w[e + 1];
          w[e + 2] = q.z * w[e + 2];
          w[e + 3] = q.w * w[e + 3];
        }
        inverse<M, odd>(w, sum, t, factors, slot, WarpSync());
      });
      __syncwarp();
      for_points<M>(t, [&](int j, int at) {
        if (at < ny) own[at * P::kPitch] = sum[j];
      });
    }
  }
};

/// One block per plane, item and part; items are next to each other, as they need the same spectrum.
template <int M>
__global__ void __launch_bounds__(Plane<M>::kThreadsOf, 1) plane_around(PlanePass p) {
  using L = Line<M>;
  using P = Plane<M>;
  extern __shared__ float2 plane_memory[];
  float2* const table = plane_memory + P::kLine * P::kPitch;
  for (int i = static_cast<int>(threadIdx.x); i < P::kFactors; i += P::kThreadsOf) {
    const int b = i % P::kSlot, k1 = i / P::kSlot % L::R1, odd = i / P::kSlot / L::R1;
    table[i] = p.roots[(2 * k1 + odd) * b];  // at most (2 R1 - 1) R2 < 2M
  }
  const unsigned part = blockIdx.x % p.parts, item = blockIdx.x / p.parts % p.items,
                 plane = blockIdx.x / p.parts / p.items;
  const std::int64_t size = static_cast<std::int64_t>(p.ny) * p.nx;
  const std::int64_t at = static_cast<std::int64_t>(item) * p.planes + plane;
  const float2* const from = p.from + at * size;
  float2* const to = p.to + (static_cast<std::int64_t>(part) * p.items * p.planes + at) * size;
  const PlaneThread<M> thread{
      plane_memory, {table}, p.ny, p.nx, static_cast<int>(threadIdx.x) % 32, static_cast<int>(threadIdx.x) / 32};
  let_kernel_after_begin();
  wait_for_kernel_before();
  __syncthreads();
  constexpr int kOfParity = P::kOfParity;
#pragma unroll 1
  for (unsigned odd = p.parts == 2 ? part : 0; odd <= (p.parts == 2 ? part : 1); ++odd) {
    const float* const spectrum = p.spectrum + (2 * static_cast<std::int64_t>(plane) + odd) * kOfParity;
    for (int i = static_cast<int>(threadIdx.x) * 32; i < kOfParity; i += P::kThreadsOf * 32)
      prefetch_to_l2(spectrum + i);
    if (odd == 0)
      thread.template rows_forward<0>(from);
    else
      thread.template rows_forward<1>(from);
    __syncthreads();
    thread.columns(spectrum);
    __syncthreads();
    if (odd == 0)
      thread.template rows_inverse<0>(to, false);
    else
      thread.template rows_inverse<1>(to, p.parts == 1);
  }
}

// --- along the first axis

/// Where a thread is: kColumns lines side by side, of which the last block may have fewer. There are at most 128 x 128.
template <int M>
struct Across {
  using L = Line<M>;
  static constexpr int kThreadsOf = L::T * kColumns;
  static dim3 threads() { return {kColumns, L::T}; }
  int t, lines, column, tile, tiles;
  std::int64_t item, coil;
  bool inside;
  /// Blocks of as many coils take the same lines, one after the other.
  __device__ Across(const LinePass& p, int coils) : t(threadIdx.y), lines(static_cast<int>(p.lines)) {
    const int block = static_cast<int>(blockIdx.x) / coils;
    tiles = static_cast<int>(across_tiles(p.lines));
    tile = block % tiles;
    coil = static_cast<int>(blockIdx.x) % coils;
    item = block / tiles;
    column = tile * kColumns + static_cast<int>(threadIdx.x);
    inside = column < lines;
  }
  /// This thread's line of an item of n points, and one of frequencies.
  template <class T>
  __device__ T* line(T* base, std::int64_t of_item, int n) const {
    return base + (of_item * n * lines + column);
  }
};

/// The sum over a block's threads, in a fixed order; all get it.
template <int Threads>
__device__ double block_sum(double value, int thread) {
  static_assert(Threads % 32 == 0);
  __shared__ double of_warps[Threads / 32];
  for (int apart = 16; apart > 0; apart /= 2) value += __shfl_down_sync(~0u, value, apart);
  __syncthreads();  // of the call before
  if (thread % 32 == 0) of_warps[thread / 32] = value;
  __syncthreads();
  value = 0;
  for (const double of_warp : of_warps) value += of_warp;
  return value;
}

/// Takes a block's part of the product of an item, of `tiles`; the last of them adds up all, in their order.
template <int Threads>
__device__ void take_product(const AfterPass& after, std::int64_t item, int tile, int tiles, double value) {
  __shared__ bool last;
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  value = block_sum<Threads>(value, thread);
  double* const partial = after.partial + item * tiles;
  if (thread == 0) {
    partial[tile] = value;
    __threadfence();
    last = atomicAdd(after.arrived + item, 1) == tiles - 1;
    if (last) after.arrived[item] = 0;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  value = 0;
  for (int i = thread; i < tiles; i += Threads) value += static_cast<const volatile double*>(partial)[i];
  value = block_sum<Threads>(value, thread);
  if (thread == 0) after.product[item] = value;
}

/// from: [items, n, lines], or [n, lines] for all coils of maps [coils, n, lines]; to: [items or coils, 2M, lines].
template <int M, bool Maps>
__global__ void __launch_bounds__(Across<M>::kThreadsOf) across_forward(LinePass p) {
  using L = Line<M>;
  __shared__ float2 exchange[L::R1 * L::R2 * kColumns];
  const Across<M> a(p, Maps ? static_cast<int>(p.coils) : 1);
  float2* const own = exchange + threadIdx.x;
  const auto slot = [own](int k1, int b) -> float2& { return own[(k1 * L::R2 + b) * kColumns]; };
  let_kernel_after_begin();
  wait_for_kernel_before();
  float2 x[L::R1], w[L::G * L::R2];
  const float2* const from = a.line(p.from, a.item, p.n);
  for_points<M>(a.t,
                [&](int j, int at) { x[j] = a.inside && at < p.n ? from[at * a.lines] : make_float2(0.0f, 0.0f); });
  if (!Maps && p.before.r != nullptr) {
    const float2* const r = a.line(p.before.r, a.item, p.n);
    const float* const factor = p.before.factor;
    const float beta = p.before.beta[a.item * p.before.beta_stride];
    float2* const along = a.line(p.along, a.item, p.n);
    for_points<M>(a.t, [&](int j, int at) {
      if (!a.inside || at >= p.n) return;
      float2 z = r[at * a.lines];
      if (factor != nullptr) z = factor[at * a.lines + a.column] * z;
      x[j] = make_float2(z.x + beta * x[j].x, z.y + beta * x[j].y);
      along[at * a.lines] = x[j];
    });
  }
  if constexpr (Maps) {
    const float2* const maps = a.line(p.maps, a.coil, p.n);
    for_points<M>(a.t, [&](int j, int at) {
      if (a.inside && at < p.n) x[j] = x[j] * maps[at * a.lines];
    });
  }
  float2* const to = a.line(p.to, a.item + a.coil, 2 * M);
  toeplitz_lines::for_each<2>([&](auto odd) {
    forward<M, odd>(x, w, a.t, GlobalFactors{p.roots}, slot, BlockSync());
    for_frequencies<M>(a.t, [&](int e, int k) {
      if (a.inside) to[(odd * M + k) * a.lines] = w[e];
    });
  });
}

/// from: [parts, items or coils, 2M, lines]; to: [items, n, lines], or [n, lines], = or += (add) the sum over coils of
/// conj(maps) times theirs, in their order. Then `after`.
template <int M, bool Maps>
__global__ void __launch_bounds__(Across<M>::kThreadsOf,
                                  toeplitz_lines::blocks_at_once<M>((Maps ? 512 : 768) / Across<M>::kThreadsOf))
    across_inverse(LinePass p) {
  using L = Line<M>;
  __shared__ float2 exchange[L::R1 * L::R2 * kColumns];
  const Across<M> a(p, 1);
  float2* const own = exchange + threadIdx.x;
  const auto slot = [own](int k1, int b) -> float2& { return own[(k1 * L::R2 + b) * kColumns]; };
  const std::int64_t part = (Maps ? p.coils : p.items) * 2 * M * p.lines;
  let_kernel_after_begin();
  wait_for_kernel_before();
  float2 x[L::R1], w[L::G * L::R2];
  const auto finish = [&](float2* to, float2(&y)[L::R1]) {
    double product = 0;
    if (p.after.product != nullptr) {
      const float2* const along = a.line(p.along, a.item, p.n);
      for_points<M>(a.t, [&](int j, int at) {
        if (!a.inside || at >= p.n) return;
        const float2 v = along[at * a.lines];
        y[j].x += p.after.shift * v.x, y[j].y += p.after.shift * v.y;
        product += static_cast<double>(v.x) * static_cast<double>(y[j].x) +
                   static_cast<double>(v.y) * static_cast<double>(y[j].y);
      });
    }
    for_points<M>(a.t, [&](int j, int at) {
      if (a.inside && at < p.n) to[at * a.lines] = y[j];
    });
    if (p.after.product != nullptr) take_product<Across<M>::kThreadsOf>(p.after, a.item, a.tile, a.tiles, product);
  };
  const auto transform = [&](std::int64_t item) {
    const float2* const from = a.line(p.from, item, 2 * M);
    const float2* roots = p.roots;
    asm volatile("" : "+l"(roots));  // so that factors are not kept in registers from coil to coil
    toeplitz_lines::for_each<2>([&](auto odd) {
      for_frequencies<M>(
          a.t, [&](int e, int k) { w[e] = a.inside ? from[(odd * M + k) * a.lines] : make_float2(0.0f, 0.0f); });
      if (p.parts == 2 && a.inside)
        for_frequencies<M>(a.t, [&](int e, int k) { w[e] = w[e] + (from + part)[(odd * M + k) * a.lines]; });
      inverse<M, odd>(w, x, a.t, GlobalFactors{roots}, slot, BlockSync());
    });
  };
  if constexpr (Maps) {
    float2* const to = a.line(p.to, 0, p.n);
    float2 sum[L::R1];
    for_points<M>(a.t, [&](int j, int at) {
      sum[j] = p.add && a.inside && at < p.n ? to[at * a.lines] : make_float2(0.0f, 0.0f);
    });
#pragma unroll 1
    for (int coil = 0; coil < static_cast<int>(p.coils); ++coil) {
      transform(coil);
      const float2* const maps = a.line(p.maps, coil, p.n);
      for_points<M>(a.t, [&](int j, int at) {
        if (a.inside && at < p.n) sum[j] = sum[j] + x[j] * conjugate(maps[at * a.lines]);
      });
    }
    finish(to, sum);
  } else {
    transform(a.item);
    finish(a.line(p.to, a.item, p.n), x);
  }
}

unsigned across_blocks(const LinePass& p, std::int64_t items) {
  static_assert(kColumns == 16);
  return static_cast<unsigned>(across_tiles(p.lines) * items);
}

}  // namespace

template <int M>
PlaneKernels plane_kernels() {
  return {[](const PlanePass& p, cudaStream_t s) {
            // Asked for anew each time, as it is of the device that is the current one.
            check(cudaFuncSetAttribute(plane_around<M>, cudaFuncAttributeMaxDynamicSharedMemorySize, Plane<M>::kBytes),
                  "asking for shared memory");
            launch_early("plane_around", plane_around<M>,
                         {.blocks = dim3(p.planes * p.items * p.parts),
                          .threads = dim3(Plane<M>::kThreadsOf),
                          .shared_bytes = Plane<M>::kBytes},
                         s, p);
          },
          Plane<M>::kOrder, Plane<M>::kBytes};
}

template <int M>
AcrossKernels across_kernels() {
  return {
      [](const LinePass& p, cudaStream_t s) {
        launch_early(
            "across_forward", p.maps == nullptr ? across_forward<M, false> : across_forward<M, true>,
            {.blocks = dim3(across_blocks(p, p.maps == nullptr ? p.items : p.coils)), .threads = Across<M>::threads()},
            s, p);
      },
      [](const LinePass& p, cudaStream_t s) {
        launch_early(
            "across_inverse", p.maps == nullptr ? across_inverse<M, false> : across_inverse<M, true>,
            {.blocks = dim3(across_blocks(p, p.maps == nullptr ? p.items : 1)), .threads = Across<M>::threads()}, s, p);
      }};
}

#define ECHOTRAIN_INSTANTIATE(m) template PlaneKernels plane_kernels<m>();
ECHOTRAIN_TOEPLITZ_PLANES(ECHOTRAIN_INSTANTIATE)
#undef ECHOTRAIN_INSTANTIATE
#define ECHOTRAIN_INSTANTIATE(m) template AcrossKernels across_kernels<m>();
ECHOTRAIN_TOEPLITZ_ACROSS(ECHOTRAIN_INSTANTIATE)
#undef ECHOTRAIN_INSTANTIATE

}  // namespace echotrain::numerics::cuda
