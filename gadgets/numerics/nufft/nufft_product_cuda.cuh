// A tile's sum as a matrix product on the tensor cores,
//   tile[point, coil] = sum over samples of weight[point, sample] value[sample, coil],
// whose operands are split into two tf32 parts each; three products are added, which keeps fp32's accuracy (the product
// left out is 2^-22 of the whole). Source: Markidis et al., IPDPSW 2018.
#pragma once

#include <cstdint>

#include "gadgets/numerics/nufft/nufft_staging_cuda.cuh"

namespace echotrain::numerics::cuda {

constexpr int kDepth = 8;  // samples of one tensor core operation

/// A number as two tf32 numbers (10 explicit mantissa bits each), the first rounded. The tensor core reads no more bits
/// than that.
struct Split {
  std::uint32_t high, low;
};
__device__ inline Split split(float v) {
  const std::uint32_t high = (__float_as_uint(v) + 0x1000u) & 0xffffe000u;
  return {high, __float_as_uint(v - __uint_as_float(high))};
}

/// sum[16, 8] += a[16, 8] b[8, 8] on the tensor cores; the fragments' layout is PTX's for mma.m16n8k8.tf32.
__device__ inline void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// A lane's part of a tile's sums, of 16 of its points each: points row and row + 8, coil `column` of each group of
/// four.
template <int Columns>
using LaneSums = float[kTilePoints / 16][Columns][4];

/// Weights of two neighbouring samples at points of the tile, as products of the axes' weights.
template <int Dims, int Columns>
struct PointWeights {
  using T = TileShape<Dims>;
  using S = Staged<Dims, Columns>;
  const typename S::Weights& weight;
  int sample, row;
  float2 x, xy[2];  // what all of the tile's points share

  __device__ __forceinline__ PointWeights(const typename S::Weights& all, int first, int row_)
      : weight(all), sample(first), row(row_) {
    if constexpr (Dims == 2) x = of(row);
    if constexpr (Dims == 3) {
      x = of(row % T::kX);
      for (int half = 0; half < 2; ++half) {
        const float2 y = of(S::kY + row / T::kX + 2 * half);
        xy[half] = make_float2(x.x * y.x, x.y * y.y);
      }
    }
  }
  __device__ __forceinline__ float2 of(int q) const { return *reinterpret_cast<const float2*>(&weight[q][sample]); }
  /// At point 16 m + row + 8 half.
  __device__ __forceinline__ float2 at(int m, int half) const {
    if constexpr (Dims == 1) {
      return of(16 * m + row + 8 * half);
    } else if constexpr (Dims == 2) {
      const float2 y = of(S::kY + 2 * m + half);
      return make_float2(x.x * y.x, x.y * y.y);
    } else {
      const float2 z = of(S::kZ + m);
      return make_float2(xy[half].x * z.x, xy[half].y * z.y);
    }
  }
};

/// Adds kDepth samples from `first` on. `value`: of the batch.
template <int Dims, int Columns>
__device__ __forceinline__ void add_samples(const float (&value)[kBatch][Staged<Dims, Columns>::kValueStride],
                                            const typename Staged<Dims, Columns>::Weights& weight, int first, int lane,
                                            LaneSums<Columns>& sum) {
  const int row = lane / 4, column = lane % 4;  // of the operation's fragments
  // Of the operation's eight samples, a thread holds numbers `column` and `column + 4`: here 2 column and one more.
  const int sample = first + 2 * column;
  Split b0[Columns], b1[Columns];
#pragma unroll
  for (int c = 0; c < Columns; ++c) {
    b0[c] = split(value[sample][8 * c + row]);
    b1[c] = split(value[sample + 1][8 * c + row]);
  }
  const PointWeights<Dims, Columns> weights(weight, sample, row);
#pragma unroll
  for (int m = 0; m < kTilePoints / 16; ++m) {
    std::uint32_t high[4], low[4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 w = weights.at(m, half);  // of points row and row + 8
      const Split one = split(w.x), other = split(w.y);
      high[half] = one.high;
      low[half] = one.low;
      high[2 + half] = other.high;
      low[2 + half] = other.low;
    }
    // Operations on one sum wait for each other, so the coils take turns.
#pragma unroll
    for (int c = 0; c < Columns; ++c) multiply_add(sum[m][c], low, b0[c].high, b1[c].high);
#pragma unroll
    for (int c = 0; c < Columns; ++c) multiply_add(sum[m][c], high, b0[c].low, b1[c].low);
#pragma unroll
    for (int c = 0; c < Columns; ++c) multiply_add(sum[m][c], high, b0[c].high, b1[c].high);
  }
}

/// Adds a batch of n samples. Tensor cores add with less than fp32's care (they cut what does not fit), so their sums
/// are kept short: a batch, or, `InStretches`, kDepth samples.
template <int Dims, int Columns, bool InStretches>
__device__ __forceinline__ void add_batch(const float (&value)[kBatch][Staged<Dims, Columns>::kValueStride],
                                          const typename Staged<Dims, Columns>::Weights& weight, int n, int lane,
                                          LaneSums<Columns>& sum) {
  constexpr int kSum = InStretches ? kDepth : kBatch;
  for (int first = 0; first < n; first += kSum) {
    LaneSums<Columns> batch = {};
    for (int s = first; s < min(n, first + kSum); s += kDepth)
      add_samples<Dims, Columns>(value, weight, s, lane, batch);
#pragma unroll
    for (int m = 0; m < kTilePoints / 16; ++m)
#pragma unroll
      for (int c = 0; c < Columns; ++c)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[m][c][i] += batch[m][c][i];
  }
}

}  // namespace echotrain::numerics::cuda
