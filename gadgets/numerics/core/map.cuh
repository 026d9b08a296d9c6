// A map calls a functor for each element of an array, on the CPU's threads or on a GPU. It is for sources NAME.cu,
// which hold an operation for both backends: the C++ compiler compiles them, and in a build with CUDA also nvcc, for
// the functors before `#ifndef __CUDACC__`; checks of arguments and calls of map() follow it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/complex_value.h"
#include "gadgets/numerics/core/dispatch.h"

#ifdef __CUDACC__
#include "gadgets/numerics/core/cuda_support.cuh"
#endif

// Marks functions that a functor consists of: for both compilers, and inlined, so that the CPU's loops become vectors.
#define ECHOTRAIN_EACH ECHOTRAIN_HOST_DEVICE ECHOTRAIN_INLINE

namespace echotrain::numerics {

/// Neighbours along an axis that one call of a functor does, at most kMost.
template <int kMost>
struct Lanes {
  std::int64_t first;
  int count;
};

/// Complex numbers of lanes, with the parts apart, as vectors have them.
template <int kMost>
struct ComplexLanes {
  float re[kMost], im[kMost];
  ECHOTRAIN_EACH void clear(int count) {
    for (int l = 0; l < count; ++l) re[l] = im[l] = 0;
  }
  ECHOTRAIN_EACH Complex at(int l) const { return {re[l], im[l]}; }
  ECHOTRAIN_EACH void put(int l, Complex value) { re[l] = value.re, im[l] = value.im; }
};

/// The elements that make a piece worth a thread of the CPU.
constexpr std::int64_t kMapGrain = 16 * 1024;

/// The extents of an array, or the indices of an element, slowest first.
template <std::size_t N>
struct MapExtents {
  std::int64_t of[N];
};

namespace cuda {
/// Calls f on the context's stream. ECHOTRAIN_MAP defines it.
template <class F, std::size_t N>
void launch_map(Context& context, const F& f, const MapExtents<N>& extents);
}  // namespace cuda

namespace map_details {

/// True after ECHOTRAIN_MAP(F, N).
template <class F, std::size_t N>
constexpr bool kKnown = false;

/// The most lanes of a call along axis A; 0: the functor takes an index there.
template <class F, std::size_t A, bool kDevice>
constexpr int lanes_of() {
  if constexpr (requires { F::kLanes; }) return kDevice && F::kLanes[A] > 1 ? 1 : F::kLanes[A];
  return 0;
}
template <class F>
constexpr bool has_clones() {
  if constexpr (requires { F::kClones; }) return F::kClones;
  return false;
}

/// What a functor gets for block `at` of axis A.
template <class F, std::size_t A, bool kDevice, std::size_t N>
ECHOTRAIN_EACH auto argument(const MapExtents<N>& extents, std::int64_t at) {
  constexpr int kMost = lanes_of<F, A, kDevice>();
  if constexpr (kMost == 0) {
    return at;
  } else if constexpr (kMost == 1) {
    return Lanes<1>{at, 1};
  } else {
    const std::int64_t first = at * kMost, left = extents.of[A] - first;
    return Lanes<kMost>{first, left < kMost ? static_cast<int>(left) : kMost};
  }
}
template <bool kDevice, class F, std::size_t N, std::size_t... A>
ECHOTRAIN_EACH void call(const F& f, const MapExtents<N>& extents, const MapExtents<N>& at, std::index_sequence<A...>) {
  f(argument<F, A, kDevice>(extents, at.of[A])...);
}

/// The indices of all axes but the last, of row `row`.
template <std::size_t N>
ECHOTRAIN_EACH void find_row(const MapExtents<N>& extents, std::int64_t row, MapExtents<N>& at) {
  for (std::size_t a = N - 1; a-- > 1; row /= extents.of[a]) at.of[a] = row % extents.of[a];
  if constexpr (N > 1) at.of[0] = row;
}

template <class F, std::size_t N>
struct Work {
  F f;
  MapExtents<N> extents, blocks;  ///< elements of each axis, and blocks of lanes
};

/// Calls f for blocks begin .. end - 1. The work is copied, so that stores cannot change it.
template <class F, std::size_t N>
ECHOTRAIN_INLINE void call_for(const Work<F, N> w, std::int64_t begin, std::int64_t end) {
  const std::int64_t nx = w.blocks.of[N - 1];
  MapExtents<N> at;
  find_row(w.blocks, begin / nx, at);
  for (std::int64_t first = begin % nx; begin < end; first = 0) {
    const std::int64_t last = std::min(nx, first + end - begin);
    for (std::int64_t x = first; x < last; ++x) {
      at.of[N - 1] = x;
      call<false>(w.f, w.extents, at, std::make_index_sequence<N>());
    }
    begin += last - first;
    for (std::size_t a = N - 1; a-- > 0;) {  // the next row
      if (++at.of[a] < w.blocks.of[a]) break;
      at.of[a] = 0;
    }
  }
}
template <class F, std::size_t N>
static ECHOTRAIN_TEMPLATE_CLONES void call_clone_for(const Work<F, N>& w, std::int64_t begin, std::int64_t end) {
  call_for<F, N>(w, begin, end);
}

/// Divides 0 <= n < 2^31 by d, 1 <= d < 2^31, with a product and a shift, as GPUs have no divider. Source: Granlund &
/// Montgomery, "Division by invariant integers using multiplication", PLDI 1994.
struct Divisor {
  std::uint64_t factor = 0;  ///< ceil(2^shift / d) < 2^32
  int shift = 0;             ///< 31 + ceil(log2 d)

  Divisor() = default;
  explicit Divisor(std::uint64_t d) : shift(31 + static_cast<int>(std::bit_width(d - 1))) {
    factor = ((std::uint64_t{1} << shift) + d - 1) / d;
  }
  ECHOTRAIN_EACH std::int64_t operator()(std::int64_t n) const {
    return static_cast<std::int64_t>(static_cast<std::uint32_t>(n) * factor >> shift);
  }
};

/// Divisors by the blocks of all axes but the first, if `count` blocks are few enough for them.
template <std::size_t N>
struct Divisors {
  bool fit = false;
  Divisor by[N];
  Divisors(const MapExtents<N>& blocks, std::int64_t count) : fit(count <= INT32_MAX) {
    for (std::size_t a = 1; fit && a < N; ++a) by[a] = Divisor(static_cast<std::uint64_t>(blocks.of[a]));
  }
};

#ifdef __CUDACC__
template <class F, std::size_t N>
__global__ void map_kernel(const Work<F, N> w, const Divisors<N> divisors, std::int64_t count) {
#pragma unroll 1  // threads mostly have one element
  ECHOTRAIN_GRID_STRIDE(i, count) {
    MapExtents<N> at;
    at.of[0] = i;
    for (std::size_t a = N; a-- > 1;) {
      const std::int64_t all = at.of[0], rows = divisors.fit ? divisors.by[a](all) : all / w.blocks.of[a];
      at.of[a] = all - rows * w.blocks.of[a];
      at.of[0] = rows;
    }
    call<true>(w.f, w.extents, at, std::make_index_sequence<N>());
  }
}
#endif

template <class F, bool kDevice, std::size_t N, std::size_t... A>
MapExtents<N> blocks_of(const MapExtents<N>& extents, std::index_sequence<A...>) {
  const auto blocks = [](std::int64_t n, int lanes) { return lanes == 0 ? n : (n + lanes - 1) / lanes; };
  return {{blocks(extents.of[A], lanes_of<F, A, kDevice>())...}};
}
template <bool kDevice, class F, std::size_t N>
Work<F, N> work_of(const F& f, const MapExtents<N>& extents) {
  return {f, extents, blocks_of<F, kDevice>(extents, std::make_index_sequence<N>())};
}
template <std::size_t N>
std::int64_t product(const MapExtents<N>& extents) {
  std::int64_t all = 1;
  for (const std::int64_t n : extents.of) all *= n;
  return all;
}

}  // namespace map_details

// Makes a functor for an array of N axes known to both compilers. It stands in namespace echotrain::numerics, as does
// the functor, whose name no other source has.
#ifdef __CUDACC__
#define ECHOTRAIN_MAP(F, N)                                                                                 \
  template <>                                                                                               \
  void cuda::launch_map<F, N>(Context & context, const F& f, const MapExtents<N>& extents) {                \
    const auto work = map_details::work_of<true>(f, extents);                                               \
    const std::int64_t count = map_details::product(work.blocks);                                           \
    const map_details::Divisors<N> divisors(work.blocks, count);                                            \
    map_details::map_kernel<<<blocks_for(count), kThreads, 0, stream_of(context)>>>(work, divisors, count); \
    check_launch(#F);                                                                                       \
  }
#else
#define ECHOTRAIN_MAP(F, N)                        \
  template <>                                      \
  constexpr bool map_details::kKnown<F, N> = true; \
  template <>                                      \
  void cuda::launch_map<F, N>(Context & context, const F& f, const MapExtents<N>& extents);
#endif

/// Calls f(i, j, ..., x) for each element of an array of these extents, slowest first; on CUDA, asynchronously, a
/// thread for each. f is known by ECHOTRAIN_MAP; its operator() is const and ECHOTRAIN_EACH.
/// Elements are done in any order, and at once.
///
/// The CPU's loops are compiled for the oldest supported machine, so that all machines give the same bits; with
/// `static constexpr bool kClones = true` in f, for newer ones too (clones.h).
///
/// With `static constexpr int kLanes[] = {0, 256}` (one number for each axis) f gets Lanes<256> in the place of x, so
/// that sums over other axes stay in the cache while loops over lanes become vectors. On a GPU they are Lanes<1>.
///
/// grain: the elements that make a piece worth a thread of the CPU.
template <class F, std::size_t N>
void map(Context& context, const std::int64_t (&extents)[N], const F& f, std::int64_t grain = kMapGrain) {
  using namespace map_details;
  static_assert(kKnown<F, N>, "write ECHOTRAIN_MAP(FUNCTOR, AXES) below the functor, with as many axes as map() gets");
  context.check_stop();
  MapExtents<N> n;
  std::copy_n(extents, N, n.of);
  const std::int64_t size = product(n);
  if (size == 0) return;
#if ECHOTRAIN_HAS_CUDA
  if (context.cuda()) return cuda::launch_map<F, N>(context, f, n);
#endif
  const auto work = work_of<false>(f, n);
  const std::int64_t blocks = product(work.blocks);
  context.threads().parallel_for(blocks, std::max<std::int64_t>(1, grain * blocks / size),
                                 [&work](std::int64_t begin, std::int64_t end) {
                                   if constexpr (has_clones<F>())
                                     call_clone_for(work, begin, end);
                                   else
                                     call_for<F, N>(work, begin, end);
                                 });
}

/// Host elements where functors can read them: on the CPU in their place, on CUDA a copy.
template <class T>
class Readable {
 public:
  Readable(Context& context, HostView<const T> values)
      : copy_(context.cuda() ? context.upload<T>(values) : Array<T>()),
        data_(context.cuda() ? copy_.data() : values.data()) {}
  const T* data() const { return data_; }

 private:
  Array<T> copy_;
  const T* data_;
};

}  // namespace echotrain::numerics
