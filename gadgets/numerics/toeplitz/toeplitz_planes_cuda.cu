// The Toeplitz step of volumes whose planes [y, x] fit into shared memory: three passes over device memory. One goes
// along z, as those of columns do; a block then takes a plane of one frequency along z, transforms one parity of the
// frequencies along x, both parities along y, which it multiplies by the spectrum, and goes back; the last goes along z
// again. In a plane, lines are transformed by eight threads of one warp, four lines at a time, so that blocks wait
// for all their warps only between x and y. A block takes one plane after the other, each row of the next one in the
// place of the same row of the one before, so that rows are loaded while others are transformed.
#include <algorithm>
#include <type_traits>

#include "gadgets/numerics/cuda/early_launch.cuh"
#include "gadgets/numerics/toeplitz/toeplitz_planes_cuda.cuh"

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
using toeplitz_planes::AskedSpectrum;
using toeplitz_planes::fetch_to_l2;
using toeplitz_planes::kNone;
using toeplitz_planes::Plane;
using toeplitz_planes::PlaneThread;

/// What a block takes, one after the other: both parities along x of a plane of an item (one part), or one of them.
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

/// As many blocks as run at once, an even number of them where there are two parts.
template <int M, int Parts, bool Full>
__global__ void __launch_bounds__(Plane<M>::kThreadsOf, Plane<M>::kBlocksAtOnce) plane_around(PlanePass p) {
  using P = Plane<M>;
  extern __shared__ __align__(16) float2 plane_memory[];
  const PlaneThread<M, Full> thread(plane_memory, p.ny, p.nx);
  PlaneJob<M, Parts> job(blockIdx.x);
  // Other items of the plane need the same spectrum at about the same time.
  const auto fetch_spectrum = [&](const PlaneJob<M, Parts>& of) {
    if (threadIdx.x == 0 && of.is_in(p) && of.pair % p.items == 0)
      fetch_to_l2(of.spectrum(p), P::kOfParity * static_cast<int>(sizeof(float)));
  };
  let_kernel_after_begin();
  fetch_spectrum(job);
  toeplitz_planes::fill_factors<M>(plane_memory, p.roots);
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
    // Memory works while this computes: what comes next is fetched now.
    fetch_spectrum(next);
    if (Full && threadIdx.x == 0 && more && next.pair != job.pair)
      fetch_to_l2(next.from(p), M * M * static_cast<int>(sizeof(float2)));
    __syncthreads();
    thread.columns(AskedSpectrum<M>{job.spectrum(p), thread.lane});
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
    forward<M, odd>(x, w, a.t, GlobalFactors{p.roots, M / 4}, slot, BlockSync());
    for_frequencies<M>(a.t, [&](int e, int k) {
      if (a.inside) to[(odd * M + k) * a.lines] = w[e];
    });
  });
}

/// Numbers of each thread that come from device memory into shared memory while it computes. Groups of copies arrive in
/// the order in which they were begun.
template <int Threads, int Numbers, int Slots>
struct OwnCopies {
  static constexpr int kSize = Threads * Numbers * Slots;
  float2* own;  ///< of this thread
  __device__ float2& at(int slot, int i) const { return own[(slot * Numbers + i) * Threads]; }
  __device__ void begin(int slot, int i, const float2* from) const {
    const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(&at(slot, i)));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
  }
  __device__ void end_group() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
  /// All groups but the last `Left` are there.
  template <int Left>
  __device__ void wait() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
  }
};
template <int M>
using AcrossCopies = OwnCopies<Across<M>::kThreadsOf,
                               (Line<M>::G * Line<M>::R2 > Line<M>::R1 ? Line<M>::G * Line<M>::R2 : Line<M>::R1), 2>;
template <int M, bool Maps>
constexpr int kInverseBytes = (Line<M>::R1 * Line<M>::R2 * kColumns + (Maps ? AcrossCopies<M>::kSize : 0)) *
                              static_cast<int>(sizeof(float2));

/// from: [parts, items or coils, 2M, lines]; to: [items, n, lines], or [n, lines], = or += (add)
/// the sum over coils of conj(maps) times theirs, in their order. Then `after`.
template <int M, bool Maps>
__global__ void __launch_bounds__(Across<M>::kThreadsOf,
                                  toeplitz_lines::blocks_at_once<M>((Maps ? 512 : 768) / Across<M>::kThreadsOf))
    across_inverse(LinePass p) {
  using L = Line<M>;
  extern __shared__ __align__(16) float2 across_memory[];
  const Across<M> a(p, 1);
  float2* const own = across_memory + threadIdx.x;
  const auto slot = [own](int k1, int b) -> float2& { return own[(k1 * L::R2 + b) * kColumns]; };
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
  const auto back = [&](auto odd) {
    const float2* roots = p.roots;
    asm volatile("" : "+l"(roots));  // so that factors are not kept in registers from coil to coil
    inverse<M, odd>(w, x, a.t, GlobalFactors{roots, M / 4}, slot, BlockSync());
  };
  if constexpr (Maps) {
    const AcrossCopies<M> copies{across_memory + L::R1 * L::R2 * kColumns + threadIdx.y * kColumns + threadIdx.x};
    const auto begin_frequencies = [&](int place, int coil, int odd) {
      const float2* const from = a.line(p.from, coil, 2 * M);
      if (a.inside)
        for_frequencies<M>(a.t, [&](int e, int k) { copies.begin(place, e, from + (odd * M + k) * a.lines); });
      copies.end_group();
    };
    const auto take_frequencies = [&](int place, int coil, int odd) {
      for_frequencies<M>(a.t, [&](int e, int) { w[e] = a.inside ? copies.at(place, e) : make_float2(0.0f, 0.0f); });
      if (p.parts != 2 || !a.inside) return;
      const float2* const from = a.line(p.from, p.coils + coil, 2 * M);
      for_frequencies<M>(a.t, [&](int e, int k) { w[e] = w[e] + from[(odd * M + k) * a.lines]; });
    };
    float2* const to = a.line(p.to, 0, p.n);
    float2 sum[L::R1];
    for_points<M>(a.t, [&](int j, int at) {
      sum[j] = p.add && a.inside && at < p.n ? to[at * a.lines] : make_float2(0.0f, 0.0f);
    });
    const int coils = static_cast<int>(p.coils);
    begin_frequencies(0, 0, 0);
    begin_frequencies(1, 0, 1);
#pragma unroll 1
    for (int coil = 0; coil < coils; ++coil) {
      // Even frequencies, odd ones, the map, and so on with the next coil: each is asked for as soon as the one two
      // before it has left its place, and waited for when that is the last group but one.
      const int first = coil % 2, second = 1 - first;
      const bool more = coil + 1 < coils;
      copies.template wait<1>();
      take_frequencies(first, coil, 0);
      const float2* const maps = a.line(p.maps, coil, p.n);
      for_points<M>(a.t, [&](int j, int at) {
        if (a.inside && at < p.n) copies.begin(first, j, maps + at * a.lines);
      });
      copies.end_group();
      back(std::integral_constant<int, 0>());
      copies.template wait<1>();
      take_frequencies(second, coil, 1);
      if (more)
        begin_frequencies(second, coil + 1, 0);
      else
        copies.end_group();
      back(std::integral_constant<int, 1>());
      copies.template wait<1>();
      for_points<M>(a.t, [&](int j, int at) {
        if (a.inside && at < p.n) sum[j] = sum[j] + x[j] * conjugate(copies.at(first, j));
      });
      if (more)
        begin_frequencies(first, coil + 1, 1);
      else
        copies.end_group();
    }
    finish(to, sum);
  } else {
    const std::int64_t part = p.items * 2 * M * p.lines;
    const float2* const from = a.line(p.from, a.item, 2 * M);
    toeplitz_lines::for_each<2>([&](auto odd) {
      for_frequencies<M>(
          a.t, [&](int e, int k) { w[e] = a.inside ? from[(odd * M + k) * a.lines] : make_float2(0.0f, 0.0f); });
      if (p.parts == 2 && a.inside)
        for_frequencies<M>(a.t, [&](int e, int k) { w[e] = w[e] + (from + part)[(odd * M + k) * a.lines]; });
      back(odd);
    });
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
  // Asked for anew each time, as it is of the device that is the current one.
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Plane<M>::kBytes),
        "asking for shared memory");
  const unsigned jobs = p.planes * p.items * Parts,
                 at_once = static_cast<unsigned>(multiprocessors * Plane<M>::kBlocksAtOnce) / Parts * Parts;
  launch_early("plane_around", kernel,
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

template <int M, bool Maps>
void launch_inverse(const LinePass& p, cudaStream_t stream) {
  const auto kernel = across_inverse<M, Maps>;
  constexpr int kBytes = kInverseBytes<M, Maps>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), "asking for shared memory");
  launch_early(
      "across_inverse", kernel,
      {.blocks = dim3(across_blocks(p, Maps ? 1 : p.items)), .threads = Across<M>::threads(), .shared_bytes = kBytes},
      stream, p);
}

template <int M>
AcrossKernels across_kernels() {
  return {[](const LinePass& p, cudaStream_t s) {
            launch_early("across_forward", p.maps == nullptr ? across_forward<M, false> : across_forward<M, true>,
                         {.blocks = dim3(across_blocks(p, p.maps == nullptr ? p.items : p.coils)),
                          .threads = Across<M>::threads()},
                         s, p);
          },
          [](const LinePass& p, cudaStream_t s) {
            (p.maps == nullptr ? launch_inverse<M, false> : launch_inverse<M, true>)(p, s);
          }};
}

#define ECHOTRAIN_INSTANTIATE(m) template PlaneKernels plane_kernels<m>();
ECHOTRAIN_TOEPLITZ_PLANES(ECHOTRAIN_INSTANTIATE)
#undef ECHOTRAIN_INSTANTIATE
#define ECHOTRAIN_INSTANTIATE(m) template AcrossKernels across_kernels<m>();
ECHOTRAIN_TOEPLITZ_ACROSS(ECHOTRAIN_INSTANTIATE)
#undef ECHOTRAIN_INSTANTIATE

}  // namespace echotrain::numerics::cuda
