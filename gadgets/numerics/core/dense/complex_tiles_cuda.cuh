// Products of complex matrices in float64: a block of threads makes a tile of the result.
#pragma once

#include <cuda_runtime.h>

namespace echotrain::numerics::cuda {

constexpr int kTileThreads = 256;

__device__ inline double2 conjugate(double2 a) { return make_double2(a.x, -a.y); }

/// sum += a b
__device__ inline void add_product(double2 a, double2 b, double2& sum) {
  sum.x = fma(-a.y, b.y, fma(a.x, b.x, sum.x));
  sum.y = fma(a.y, b.x, fma(a.x, b.y, sum.y));
}

/// kSide x kSide sums, of which each of kTileThreads threads keeps `edge` x `edge` in registers.
template <int edge>
class ComplexTile {
 public:
  static constexpr int kSide = 16 * edge;

  /// sum(i, j) += sum of a(i, k) b(j, k) over k < depth, in the order of k, for i, j < kSide. Factors are functions
  /// that give a double2. All threads of the block call it; when it returns in one of them, none asks for a factor any
  /// more.
  template <class A, class B>
  __device__ void add(const A& a, const B& b, int depth) {
    __shared__ double2 of_a[kDepth][kSide], of_b[kDepth][kSide];
    const int own = threadIdx.x % kSide, first = threadIdx.x / kSide;  // the element that this thread fetches: index,
                                                                       // and first k
    double2 next_a[kFetches], next_b[kFetches];
    const auto fetch = [&](int at) {
#pragma unroll
      for (int f = 0; f < kFetches; ++f) {
        const int k = at + first + f * kAtOnce;
        next_a[f] = k < depth ? a(own, k) : make_double2(0.0, 0.0);
        next_b[f] = k < depth ? b(own, k) : make_double2(0.0, 0.0);
      }
    };
    fetch(0);
    for (int at = 0; at < depth; at += kDepth) {
      __syncthreads();  // nobody reads the previous elements any more
#pragma unroll
      for (int f = 0; f < kFetches; ++f) {
        of_a[first + f * kAtOnce][own] = next_a[f];
        of_b[first + f * kAtOnce][own] = next_b[f];
      }
      __syncthreads();
      if (at + kDepth < depth) fetch(at + kDepth);
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        double2 rows[edge], columns[edge];
#pragma unroll
        for (int p = 0; p < edge; ++p) {
          rows[p] = of_a[k][row(p)];
          columns[p] = of_b[k][column(p)];
        }
#pragma unroll
        for (int p = 0; p < edge; ++p)
#pragma unroll
          for (int q = 0; q < edge; ++q) add_product(rows[p], columns[q], sum_[p][q]);
      }
    }
  }

  /// Calls put(i, j, sum) for this thread's sums. Consecutive threads have consecutive rows i.
  template <class Put>
  __device__ void each(const Put& put) const {
#pragma unroll
    for (int q = 0; q < edge; ++q)
#pragma unroll
      for (int p = 0; p < edge; ++p) put(row(p), column(q), sum_[p][q]);
  }

 private:
  static constexpr int kDepth = 8;                      // k of the factors that are kept in shared memory
  static constexpr int kAtOnce = kTileThreads / kSide;  // k that all threads together fetch at once
  static constexpr int kFetches = kDepth / kAtOnce;     // fetches of each thread
  static_assert(kAtOnce * kFetches == kDepth && kTileThreads % kSide == 0);

  __device__ static int row(int p) { return threadIdx.x % 16 + 16 * p; }
  __device__ static int column(int q) { return threadIdx.x / 16 + 16 * q; }

  double2 sum_[edge][edge] = {};
};

}  // namespace echotrain::numerics::cuda
