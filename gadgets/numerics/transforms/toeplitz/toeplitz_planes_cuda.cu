// The Toeplitz step of volumes whose planes [y, x] fit into shared memory: three passes over device memory. One goes
// along z, as the passes over columns do; a block then takes a plane of one frequency along z, transforms one parity of
// the frequencies along x, both parities along y, which it multiplies by the spectrum, and goes back; the last goes
// along z again. In a plane, lines are transformed by eight threads of one warp, four lines at a time, so that blocks
// wait for all their warps only between x and y. A block takes one plane after the other, each row of the next one in
// the place of the same row of the previous one, so that rows are loaded while others are transformed.
#include <algorithm>
#include <type_traits>

#include "gadgets/numerics/core/cuda/programmatic_launch.cuh"
#include "gadgets/numerics/transforms/toeplitz/toeplitz_lines_cuda.cuh"

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
  /// The distance of k1 and k1 + 1 in a line's exchange, and the elements of a whole line then.
  static constexpr int kSlot = L::R2 + 1, kLine = L::R1 * kSlot;
  /// The distance of lines along x: 4 beyond a multiple of 16, so that the 16 threads that shared memory serves at once
  /// meet all its banks: two lines along x two apart and eight threads, or four lines along y and four threads.
  static constexpr int kPitch = (kLine + 11) / 16 * 16 + 4;
  static constexpr int kFactors = 2 * L::R1 * kSlot;
  static constexpr int kGroups = M / 4, kWarps = kGroups > 16 ? kGroups / 2 : kGroups;
  static constexpr int kThreadsOf = 32 * kWarps, kBlocksAtOnce = M <= 64 ? 2 : 1;  // threads of a multiprocessor
  static constexpr int kBytes = (kLine * kPitch + kFactors) * static_cast<int>(sizeof(float2));
  static constexpr PlaneOrder kOrder{M, L::R1, L::R2};
  static constexpr int kOfParity = static_cast<int>(PlaneOrder{M, L::R1, L::R2}.size() / 2);
};

/// Reads the factors from shared memory.
template <int M>
struct SharedFactors {
  const float2* table;
  __device__ float2 operator()(int odd, int k1, int b) const {
    return table[(odd * Line<M>::R1 + k1) * Plane<M>::kSlot + b];
  }
};

constexpr int kNone = -1;  // no parity

/// Fetches `bytes`, a multiple of 16, into the L2 cache. Called by one thread. Devices before compute capability 9.0
/// have no such instruction.
__device__ void fetch_to_l2([[maybe_unused]] const void* from, [[maybe_unused]] int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}
/// Loads four numbers at this point of the program: compilers leave the load before the barriers that follow.
__device__ float4 load_here(const float* from) {
  float4 q;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(q.x), "=f"(q.y), "=f"(q.z), "=f"(q.w)
               : "l"(from));
  return q;
}
/// to += v without waiting for the sum. One thread adds, after its own store, so that the order is always the same.
__device__ void add_to(float2* to, float2 v) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(v.x), "f"(v.y) : "memory");
#else
  to->x += v.x, to->y += v.y;
#endif
}

/// The data of a thread of a plane's block. Full: planes have M x M points.
template <int M, bool Full>
struct PlaneThread {
  using L = Line<M>;
  using P = Plane<M>;
  float2* plane;
  SharedFactors<M> factors;
  int ny, nx, lane, warp;

  __device__ bool inside(int y, int x) const { return Full || (y < ny && x < nx); }
  __device__ int at(int y, int x) const { return y * (Full ? M : nx) + x; }

  /// Transforms the rows of the finished plane, from frequencies of parity Done, back to `to`: =, or += where Add; and
  /// in their place those of the next plane, of `from`, to frequencies of parity Next. kNone: there is no such plane. A
  /// warp works only on its own rows.
  template <int Done, bool Add, int Next>
  __device__ __forceinline__ void rows(float2* to, const float2* from) const {
    const int t = lane % 8;
#pragma unroll 1
    for (int group = warp; 4 * group < (Full ? M : ny); group += P::kWarps) {
      const int row = 4 * group + (lane / 8 % 2) * 2 + lane / 16;
      float2* const own = plane + row * P::kPitch;
      const auto slot = [own](int k1, int b) -> float2& { return own[k1 * P::kSlot + b]; };
      float2 x[L::R1], w[L::G * L::R2];
      if constexpr (Next != kNone)
        for_points<M>(t, [&](int j, int i) { x[j] = inside(row, i) ? from[at(row, i)] : make_float2(0.0f, 0.0f); });
      if constexpr (Done != kNone) {
        float2 sum[L::R1];
        for_points<M>(t, [&](int j, int) { sum[j] = make_float2(-0.0f, -0.0f); });  // negative zero, which adds nothing
        for_frequencies<M>(t, [&](int e, int k) { w[e] = own[k]; });
        inverse<M, Done>(w, sum, t, factors, slot, WarpSync());
        for_points<M>(t, [&](int j, int i) {
          if (!inside(row, i)) return;
          if constexpr (Add)
            add_to(to + at(row, i), sum[j]);
          else
            to[at(row, i)] = sum[j];
        });
      }
      if constexpr (Next != kNone) {
        forward<M, Next>(x, w, t, factors, slot, WarpSync());
        __syncwarp();
        for_frequencies<M>(t, [&](int e, int k) { own[k] = w[e]; });
      }
    }
  }

  /// Transforms lines along y in shared memory: forward, times the spectrum, and back.
  __device__ __forceinline__ void columns(const float* spectrum) const {
    const int t = lane / 4;
#pragma unroll 1
    for (int group = warp; group < P::kGroups; group += P::kWarps) {
      float2* const own = plane + 4 * group + lane % 4;
      const auto slot = [own](int k1, int b) -> float2& { return own[(k1 * P::kSlot + b) * P::kPitch]; };
      float2 x[L::R1], sum[L::R1], w[L::G * L::R2];
      for_points<M>(t, [&](int j, int y) { x[j] = Full || y < ny ? own[y * P::kPitch] : make_float2(0.0f, 0.0f); });
      toeplitz_lines::for_each<2>([&](auto odd) {
        const float* const of_warp = spectrum + (odd * P::kGroups + group) * (L::G * L::R2 * 32) + 4 * lane;
        float4 q[L::G * L::R2 / 4];
        int syncs = 0;
        forward<M, odd>(x, w, t, factors, slot, [&] {
          // The load begins when points have left their registers, and ends before the product.
          if (syncs++ == 1) {
#pragma unroll
            for (int e = 0; e < L::G * L::R2 / 4; ++e) q[e] = load_here(of_warp + 128 * e);
          }
          __syncwarp();
        });
#pragma unroll
        for (int e = 0; e < L::G * L::R2 / 4; ++e) {
          w[4 * e] = q[e].x * w[4 * e];
          w[4 * e + 1] = q[e].y * w[4 * e + 1];
          w[4 * e + 2] = q[e].z * w[4 * e + 2];
          w[4 * e + 3] = q[e].w * w[4 * e + 3];
        }
        inverse<M, odd>(w, sum, t, factors, slot, WarpSync());
      });
      __syncwarp();
      for_points<M>(t, [&](int j, int y) {
        if (Full || y < ny) own[y * P::kPitch] = sum[j];
      });
    }
  }
};

/// The tasks of a block, one after the other: both parities along x of a plane of an item (one part), or one of them.
/// Items of a plane are next to each other, as they need the same spectrum.
template <int M, int Parts>
struct PlaneJob {
  using P = Plane<M>;
  unsigned pair, odd;
  __device__ explicit PlaneJob(unsigned block)
      : pair(Parts == 2 ? block / 2 : block), odd(Parts == 2 ? block % 2 : 0) {}
  __device__ bool is_in(const PlanePass& p) const { return pair < p.planes * p.items; }
  __device__ PlaneJob after(unsigned blocks) const {
    PlaneJob next = *this;
    if (Parts == 2)
      next.pair += blocks / 2;
    else if (odd == 0)
      next.odd = 1;
    else
      next.odd = 0, next.pair += blocks;
    return next;
  }
  __device__ std::int64_t at(const PlanePass& p) const {
    return (static_cast<std::int64_t>(pair % p.items) * p.planes + pair / p.items) * p.ny * p.nx;
  }
  __device__ const float2* from(const PlanePass& p) const { return p.from + at(p); }
  __device__ float2* to(const PlanePass& p) const {
    return p.to + (Parts == 2 ? static_cast<std::int64_t>(odd) * p.items * p.planes * p.ny * p.nx : 0) + at(p);
  }
  __device__ const float* spectrum(const PlanePass& p) const {
    return p.spectrum + (2 * static_cast<std::int64_t>(pair / p.items) + odd) * P::kOfParity;
  }
};

/// Launches as many blocks as run at once, an even number of them where there are two parts.
template <int M, int Parts, bool Full>
__global__ void __launch_bounds__(Plane<M>::kThreadsOf, Plane<M>::kBlocksAtOnce) plane_around(PlanePass p) {
  using L = Line<M>;
  using P = Plane<M>;
  extern __shared__ float2 plane_memory[];
  float2* const table = plane_memory + P::kLine * P::kPitch;
  const PlaneThread<M, Full> thread{
      plane_memory, {table}, p.ny, p.nx, static_cast<int>(threadIdx.x) % 32, static_cast<int>(threadIdx.x) / 32};
  PlaneJob<M, Parts> job(blockIdx.x);
  // Prefetches the spectrum: other items of the plane need it at about the same time.
  const auto fetch_spectrum = [&](const PlaneJob<M, Parts>& of) {
    if (threadIdx.x == 0 && of.is_in(p) && of.pair % p.items == 0)
      fetch_to_l2(of.spectrum(p), P::kOfParity * static_cast<int>(sizeof(float)));
  };
  let_kernel_after_begin();
  fetch_spectrum(job);
  for (int i = static_cast<int>(threadIdx.x); i < P::kFactors; i += P::kThreadsOf) {
    const int b = i % P::kSlot, k1 = i / P::kSlot % L::R1, odd = i / P::kSlot / L::R1;
    table[i] = p.roots[(2 * k1 + odd) * b];  // at most (2 R1 - 1) R2 < 2M
  }
  wait_for_kernel_before();
  __syncthreads();
  if (job.odd == 0)
    thread.template rows<kNone, false, 0>(nullptr, job.from(p));
  else
    thread.template rows<kNone, false, 1>(nullptr, job.from(p));
#pragma unroll 1
  for (;;) {
    const PlaneJob<M, Parts> next = job.after(gridDim.x);
    const bool more = next.is_in(p);
    // The next task's data are fetched now, so that memory works while this computes.
    fetch_spectrum(next);
    if (Full && threadIdx.x == 0 && more && next.pair != job.pair)
      fetch_to_l2(next.from(p), M * M * static_cast<int>(sizeof(float2)));
    __syncthreads();
    thread.columns(job.spectrum(p));
    __syncthreads();
    float2* const to = job.to(p);
    if (!more) {
      if (job.odd == 0)
        thread.template rows<0, false, kNone>(to, nullptr);
      else
        thread.template rows<1, Parts == 1, kNone>(to, nullptr);
      return;
    }
    if (job.odd == 0)
      thread.template rows<0, false, Parts == 1 ? 1 : 0>(to, next.from(p));
    else
      thread.template rows<1, Parts == 1, Parts == 1 ? 0 : 1>(to, next.from(p));
    job = next;
  }
}

// --- along the first axis

/// The place of a thread: kColumns lines side by side, of which the last block may have fewer. There are at most 128 x
/// 128.
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
  __syncthreads();  // the previous call is done with the memory
  if (thread % 32 == 0) of_warps[thread / 32] = value;
  __syncthreads();
  value = 0;
  for (const double of_warp : of_warps) value += of_warp;
  return value;
}

/// Puts a block's part of an item's product into one of `tiles`; the last block adds up all, in their order.
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
/// conj(maps) times their results, in their order. Then come the operations of `after`.
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

template <int M, int Parts, bool Full>
void launch_planes(const PlanePass& p, cudaStream_t stream) {
  const auto kernel = plane_around<M, Parts, Full>;
  int device = 0, multiprocessors = 0;
  check(cudaGetDevice(&device), "plane_around");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), "plane_around");
  // The attribute is set each time, as it belongs to the current device.
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Plane<M>::kBytes),
        "asking for shared memory");
  const unsigned jobs = p.planes * p.items * Parts,
                 at_once = static_cast<unsigned>(multiprocessors * Plane<M>::kBlocksAtOnce) / Parts * Parts;
  launch_programmatic("plane_around", kernel,
                      {.blocks = dim3(std::min(jobs, at_once)),
                       .threads = dim3(Plane<M>::kThreadsOf),
                       .shared_bytes = Plane<M>::kBytes},
                      stream, p);
}

}  // namespace

template <int M>
PlaneKernels plane_kernels() {
  return {[](const PlanePass& p, cudaStream_t stream) {
            const bool full = p.ny == M && p.nx == M;
            if (p.parts == 2)
              (full ? launch_planes<M, 2, true> : launch_planes<M, 2, false>)(p, stream);
            else
              (full ? launch_planes<M, 1, true> : launch_planes<M, 1, false>)(p, stream);
          },
          Plane<M>::kOrder, Plane<M>::kBytes};
}

template <int M>
AcrossKernels across_kernels() {
  return {
      [](const LinePass& p, cudaStream_t s) {
        launch_programmatic(
            "across_forward", p.maps == nullptr ? across_forward<M, false> : across_forward<M, true>,
            {.blocks = dim3(across_blocks(p, p.maps == nullptr ? p.items : p.coils)), .threads = Across<M>::threads()},
            s, p);
      },
      [](const LinePass& p, cudaStream_t s) {
        launch_programmatic(
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
