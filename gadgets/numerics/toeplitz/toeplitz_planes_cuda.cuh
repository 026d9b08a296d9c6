// A plane of a volume in the shared memory of one block: along x and y forward, times the spectrum, and back. Lines are
// transformed by eight threads of one warp, four lines at a time, so that a block waits for all its warps only between
// x and y.
#pragma once

#include <cstdint>

#include "gadgets/numerics/toeplitz/toeplitz_lines_cuda.cuh"

namespace echotrain::numerics::cuda {
namespace toeplitz_planes {

using toeplitz_lines::for_frequencies;
using toeplitz_lines::for_points;
using toeplitz_lines::forward;
using toeplitz_lines::inverse;
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
  static constexpr int kFactors = 2 * L::R1 * kSlot, kTurns = 2 * L::R1;
  static constexpr int kGroups = M / 4, kWarps = kGroups > 16 ? kGroups / 2 : kGroups;
  static constexpr int kThreadsOf = 32 * kWarps, kBlocksAtOnce = M <= 64 ? 2 : 1;  // of a multiprocessor
  /// Elements of shared memory: the plane, the factors, those of second transforms, and groups of rows that are kept as
  /// far as there is room, which there is on all devices that have room for a plane of 128^2.
  static constexpr int kFactorsAt = kLine * kPitch, kTurnsAt = kFactorsAt + kFactors, kKeptAt = kTurnsAt + 4 * kTurns,
                       kOfGroup = 32 * L::R1, kRoom = 227 * 1024 / 8, kKept = M > 96 ? (kRoom - kKeptAt) / kOfGroup : 0;
  static_assert(kGroups % kWarps == 0 && kTurnsAt % 2 == 0 && kKept <= kGroups);
  static constexpr int kBytes = (kKeptAt + kKept * kOfGroup) * static_cast<int>(sizeof(float2));
  static constexpr PlaneOrder kOrder{M, L::R1, L::R2};
  static constexpr int kOfParity = static_cast<int>(PlaneOrder{M, L::R1, L::R2}.size() / 2);
};

/// The factors from shared memory.
template <int M>
struct SharedFactors {
  const float2* table;
  const float4* turns;
  __device__ float2 operator()(int odd, int k1, int b) const {
    return table[(odd * Line<M>::R1 + k1) * Plane<M>::kSlot + b];
  }
  __device__ register_fft::Turn8 turn(int odd, int k1) const {
    const float4 a = turns[2 * (odd * Line<M>::R1 + k1)], b = turns[2 * (odd * Line<M>::R1 + k1) + 1];
    return {{a.x, a.y}, {a.z, a.w}, {b.x, b.y}, {b.z, b.w}};
  }
};

constexpr int kNone = -1;  // no parity

/// Fetches `bytes`, a multiple of 16, into the L2 cache. Called by one thread. Devices before compute capability 9.0
/// have no such instruction.
__device__ inline void fetch_to_l2([[maybe_unused]] const void* from, [[maybe_unused]] int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}
/// Four numbers, asked for where this stands: compilers leave it before the barriers that follow.
__device__ inline float4 load_here(const float* from) {
  float4 q;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(q.x), "=f"(q.y), "=f"(q.z), "=f"(q.w)
               : "l"(from));
  return q;
}
/// to += v without waiting for the sum. One thread adds, after its own store, so that the order is always the same.
__device__ inline void add_to(float2* to, float2 v) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(v.x), "f"(v.y) : "memory");
#else
  to->x += v.x, to->y += v.y;
#endif
}

/// What a thread of a plane's block knows. Full: planes have M x M points.
template <int M, bool Full>
struct PlaneThread {
  using L = Line<M>;
  using P = Plane<M>;
  float2* plane;
  SharedFactors<M> factors;
  int ny, nx, lane, warp;

  __device__ PlaneThread(float2* memory, int rows, int columns)
      : plane(memory),
        factors{memory + P::kFactorsAt, reinterpret_cast<const float4*>(memory + P::kTurnsAt)},
        ny(rows),
        nx(columns),
        lane(static_cast<int>(threadIdx.x) % 32),
        warp(static_cast<int>(threadIdx.x) / 32) {}

  __device__ bool inside(int y, int x) const { return Full || (y < ny && x < nx); }
  __device__ int at(int y, int x) const { return y * (Full ? M : nx) + x; }

  /// Rows of the plane that is done, from frequencies of parity Done back to `to`: =, or += where Add; and in their
  /// place those of the plane that is next, of `from`, to frequencies of parity Next. kNone: there is no such plane. A
  /// warp meets only rows of its own.
  template <int Done, bool Add, int Next>
  __device__ __forceinline__ void rows(float2* to, const float2* from) const {
    const int t = lane % 8;
#pragma unroll 1
    for (int group = warp; 4 * group < (Full ? M : ny); group += P::kWarps) {
      const int row = 4 * group + (lane / 8 % 2) * 2 + lane / 16;
      float2* const own = plane + row * P::kPitch;
      const auto slot = [own](int k1, int b) -> float2& { return own[k1 * P::kSlot + b]; };
      float2 x[L::R1], w[L::G * L::R2];
      // Rows kept: each thread keeps its own numbers. Of the plane before its second parity, of its result after.
      constexpr bool kSecond = Done == 0 && Next == 1;
      const bool kept = group < P::kKept;
      float4* const keep = reinterpret_cast<float4*>(plane + P::kKeptAt + group * P::kOfGroup) + lane;
      if (Next != kNone && !(kSecond && kept))
        for_points<M>(t, [&](int j, int i) { x[j] = inside(row, i) ? from[at(row, i)] : make_float2(0.0f, 0.0f); });
      if constexpr (Done != kNone) {
        float2 sum[L::R1];
        for_points<M>(t, [&](int j, int) { sum[j] = make_float2(-0.0f, -0.0f); });  // the one that adds nothing
        for_frequencies<M>(t, [&](int e, int k) { w[e] = own[k]; });
        inverse<M, Done>(w, sum, t, factors, slot, WarpSync());
        if (kSecond && kept) {
#pragma unroll
          for (int j = 0; j < L::R1; j += 2) {
            const float4 v = keep[16 * j];
            x[j] = make_float2(v.x, v.y), x[j + 1] = make_float2(v.z, v.w);
            keep[16 * j] = make_float4(sum[j].x, sum[j].y, sum[j + 1].x, sum[j + 1].y);
          }
        } else {
          if (Add && kept) {
#pragma unroll
            for (int j = 0; j < L::R1; j += 2) {
              const float4 v = keep[16 * j];
              sum[j] = sum[j] + make_float2(v.x, v.y), sum[j + 1] = sum[j + 1] + make_float2(v.z, v.w);
            }
          }
          for_points<M>(t, [&](int j, int i) {
            if (!inside(row, i)) return;
            if (Add && !kept)
              add_to(to + at(row, i), sum[j]);
            else
              to[at(row, i)] = sum[j];
          });
        }
      }
      if constexpr (Next != kNone) {
        if (Next == 0 && kept) {
#pragma unroll
          for (int j = 0; j < L::R1; j += 2) keep[16 * j] = make_float4(x[j].x, x[j].y, x[j + 1].x, x[j + 1].y);
        }
        forward<M, Next>(x, w, t, factors, slot, WarpSync());
        __syncwarp();
        for_frequencies<M>(t, [&](int e, int k) { own[k] = w[e]; });
      }
    }
  }

  /// Lines along y: forward, times the spectrum, and back, in shared memory. spectrum.ask(q, group, odd): called when
  /// points have left their registers; spectrum.take(q, group, odd): before the product.
  template <class Spectrum>
  __device__ __forceinline__ void columns(const Spectrum& spectrum) const {
    const int t = lane / 4;
#pragma unroll 1
    for (int group = warp; group < P::kGroups; group += P::kWarps) {
      float2* const own = plane + 4 * group + lane % 4;
      const auto slot = [own](int k1, int b) -> float2& { return own[(k1 * P::kSlot + b) * P::kPitch]; };
      float2 x[L::R1], sum[L::R1], w[L::G * L::R2];
      for_points<M>(t, [&](int j, int y) { x[j] = Full || y < ny ? own[y * P::kPitch] : make_float2(0.0f, 0.0f); });
      toeplitz_lines::for_each<2>([&](auto odd) {
        float4 q[L::G * L::R2 / 4];
        int syncs = 0;
        forward<M, odd>(x, w, t, factors, slot, [&] {
          if (syncs++ == 1) spectrum.ask(q, group, odd);
          __syncwarp();
        });
        spectrum.take(q, group, odd);
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

/// Numbers of a plane's spectrum, of one parity along x: 32 threads take `kQuads` of four each for a group of columns.
template <int M>
struct SpectrumPart {
  using L = Line<M>;
  using P = Plane<M>;
  static constexpr int kQuads = L::G * L::R2 / 4, kOfGroup = 128 * kQuads;
  __device__ static int at(int group, int odd) { return (odd * P::kGroups + group) * kOfGroup; }
};

/// The spectrum in shared memory.
template <int M>
struct ResidentSpectrum {
  using S = SpectrumPart<M>;
  const float* there;  ///< of one parity along x
  int lane;
  __device__ void ask(float4 (&)[S::kQuads], int, int) const {}
  __device__ void take(float4 (&q)[S::kQuads], int group, int odd) const {
    const float4* const from = reinterpret_cast<const float4*>(there + S::at(group, odd)) + lane;
#pragma unroll
    for (int e = 0; e < S::kQuads; ++e) q[e] = from[32 * e];
  }
};

/// The spectrum, asked for just before it is needed.
template <int M>
struct AskedSpectrum {
  using S = SpectrumPart<M>;
  const float* there;  ///< of one parity along x
  int lane;
  __device__ void ask(float4 (&q)[S::kQuads], int group, int odd) const {
#pragma unroll
    for (int e = 0; e < S::kQuads; ++e) q[e] = load_here(there + S::at(group, odd) + 4 * lane + 128 * e);
  }
  __device__ void take(float4 (&)[S::kQuads], int, int) const {}
};

/// Fills the tables of factors. Called by all threads of a block; they wait for each other before they use them.
template <int M>
__device__ void fill_factors(float2* plane, const float2* roots) {
  using L = Line<M>;
  using P = Plane<M>;
  float2 *const table = plane + P::kFactorsAt, *const turns = plane + P::kTurnsAt;
  for (int i = static_cast<int>(threadIdx.x); i < P::kFactors; i += P::kThreadsOf) {
    const int b = i % P::kSlot, k1 = i / P::kSlot % L::R1, odd = i / P::kSlot / L::R1;
    table[i] = roots[(2 * k1 + odd) * b];  // at most (2 R1 - 1) R2 < 2M
  }
  for (int i = static_cast<int>(threadIdx.x); i < P::kTurns; i += P::kThreadsOf) {
    const int turn = 2 * (i % L::R1) + i / L::R1;
    turns[4 * i] = roots[turn];
    turns[4 * i + 1] = roots[turn + M / 4];
    turns[4 * i + 2] = roots[2 * turn];
    turns[4 * i + 3] = roots[4 * turn];
  }
}

}  // namespace toeplitz_planes
}  // namespace echotrain::numerics::cuda
