// The sum over a tile as a matrix product on the tensor cores,
//   tile[point, coil] = sum over samples of weight[point, sample] value[sample, coil],
// as precise as the kernel's error warrants (Sums). Fp32's accuracy takes operands split into two tf32 parts each, of
// which three products are added (the product left out is 2^-22 of the whole). Parts in bf16 take half the operations
// and leave 4e-6; tf32 without parts leaves 3e-4. Source: Markidis et al., IPDPSW 2018.
#pragma once

#include <cstdint>

#include "gadgets/numerics/transforms/nufft/nufft_staging_cuda.cuh"

namespace echotrain::numerics::cuda {

constexpr int kDepth = 16;  // samples of a step; a lane holds four neighbouring ones

/// The factor by which the weights of coarse sums are raised before the tensor core truncates them to tf32: the mean
/// truncation.
constexpr float kBeforeCut = 1 + 3.4e-4f;

/// sum[16, 8] += a[16, 8] b[8, 8] on the tensor cores; the fragments' layout is PTX's for mma.m16n8k8.tf32.
__device__ inline void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// sum[16, 8] += a[16, 16] b[16, 8]; the fragments' layout is PTX's for mma.m16n8k16.bf16.
__device__ inline void multiply_add_bf16(float (&sum)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Rounds to tf32's 10 explicit mantissa bits, in the bits that the tensor core reads.
__device__ inline std::uint32_t rounded_tf32(float v) { return __float_as_uint(v) + 0x1000u; }

/// A number as two tf32 numbers, the first rounded. The tensor core reads only these bits.
struct Split {
  std::uint32_t high, low;
};
__device__ inline Split split(float v) {
  const std::uint32_t high = rounded_tf32(v) & 0xffffe000u;
  return {high, __float_as_uint(v - __uint_as_float(high))};
}

/// Two numbers in bf16, the first in the lower half.
__device__ inline std::uint32_t pack_bf16(float lower, float upper) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(upper), "f"(lower));
  return packed;
}
/// Two numbers as two bf16 numbers each (8 significant bits).
__device__ inline Split split_bf16(float lower, float upper) {
  const std::uint32_t high = pack_bf16(lower, upper);
  return {high, pack_bf16(lower - __uint_as_float(high << 16), upper - __uint_as_float(high & 0xffff0000u))};
}

/// A lane's part of a step's factor b, for one operation's 8 columns: of four samples. Coarse sums need no `low`.
template <Sums Exactness>
struct Right {
  std::uint32_t high[4], low[4];
  __device__ __forceinline__ void set(float v0, float v1, float v2, float v3) {
    if constexpr (Exactness == Sums::coarse) {
      high[0] = rounded_tf32(v0), high[1] = rounded_tf32(v1), high[2] = rounded_tf32(v2), high[3] = rounded_tf32(v3);
    } else if constexpr (Exactness == Sums::fine) {
      const Split first = split_bf16(v0, v1), second = split_bf16(v2, v3);
      high[0] = first.high, high[1] = second.high, low[0] = first.low, low[1] = second.low;
    } else {
      const float v[4] = {v0, v1, v2, v3};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Split s = split(v[i]);
        high[i] = s.high, low[i] = s.low;
      }
    }
  }
};

/// sum[16 points, 8 columns of `Count` operations] += their products over a step's kDepth samples. `upper`, `lower`:
/// the lane's weights of its four samples at points `row` and `row` + 8. Tensor cores add less precisely than fp32
/// (they truncate), so sums that must be precise are short: a step, or half of it.
template <Sums Exactness, int Count>
__device__ __forceinline__ void add_products(const float4& upper, const float4& lower,
                                             const Right<Exactness> (&right)[Count], float (&sum)[Count][4]) {
  // Operations on one sum wait for each other, so the columns take turns.
  if constexpr (Exactness == Sums::coarse) {
    const std::uint32_t first[4] = {__float_as_uint(upper.x), __float_as_uint(lower.x), __float_as_uint(upper.y),
                                    __float_as_uint(lower.y)};
    const std::uint32_t second[4] = {__float_as_uint(upper.z), __float_as_uint(lower.z), __float_as_uint(upper.w),
                                     __float_as_uint(lower.w)};
#pragma unroll
    for (int c = 0; c < Count; ++c) multiply_add(sum[c], first, right[c].high[0], right[c].high[1]);
#pragma unroll
    for (int c = 0; c < Count; ++c) multiply_add(sum[c], second, right[c].high[2], right[c].high[3]);
  } else if constexpr (Exactness == Sums::fine) {
    const Split a0 = split_bf16(upper.x, upper.y), a1 = split_bf16(lower.x, lower.y), a2 = split_bf16(upper.z, upper.w),
                a3 = split_bf16(lower.z, lower.w);
    const std::uint32_t high[4] = {a0.high, a1.high, a2.high, a3.high}, low[4] = {a0.low, a1.low, a2.low, a3.low};
#pragma unroll
    for (int c = 0; c < Count; ++c) multiply_add_bf16(sum[c], low, {right[c].high[0], right[c].high[1]});
#pragma unroll
    for (int c = 0; c < Count; ++c) multiply_add_bf16(sum[c], high, {right[c].low[0], right[c].low[1]});
#pragma unroll
    for (int c = 0; c < Count; ++c) multiply_add_bf16(sum[c], high, {right[c].high[0], right[c].high[1]});
  } else {
    float part[Count][4] = {};
    const float a[2][4] = {{upper.x, lower.x, upper.y, lower.y}, {upper.z, lower.z, upper.w, lower.w}};
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      std::uint32_t high[4], low[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Split s = split(a[k][i]);
        high[i] = s.high, low[i] = s.low;
      }
#pragma unroll
      for (int c = 0; c < Count; ++c) multiply_add(part[c], low, right[c].high[2 * k], right[c].high[2 * k + 1]);
#pragma unroll
      for (int c = 0; c < Count; ++c) multiply_add(part[c], high, right[c].low[2 * k], right[c].low[2 * k + 1]);
#pragma unroll
      for (int c = 0; c < Count; ++c) multiply_add(part[c], high, right[c].high[2 * k], right[c].high[2 * k + 1]);
      if (k == 0 && Exactness != Sums::stretches) continue;
#pragma unroll
      for (int c = 0; c < Count; ++c)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[c][i] += part[c][i], part[c][i] = 0;
    }
  }
}

/// A lane's part of a tile's sums, of 16 of its points each: points row and row + 8, columns n = 2 `column` and one
/// more of each operation's eight. Column n of operation c belongs to number n Columns + c of the coils' real and
/// imaginary parts, so that a lane reads its values of a sample at once.
template <int Columns>
using LaneSums = float[kTilePoints / 16][Columns][4];

/// The lane's sums of a point for its coil `number`, 0 .. Columns - 1; its coils are those from Columns `column` on.
template <int Columns>
__device__ __forceinline__ float2 sum_of(const float (&sum)[Columns][4], int half, int number) {
  if constexpr (Columns == 1) {
    return make_float2(sum[0][2 * half], sum[0][2 * half + 1]);
  } else {
    const int odd = number / (Columns / 2), first = 2 * (number % (Columns / 2));
    return make_float2(sum[first][2 * half + odd], sum[first + 1][2 * half + odd]);
  }
}

__device__ __forceinline__ float4 multiplied(const float4& a, const float4& b) {
  return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

/// Weights of four neighbouring samples at points of the tile, as products of the axes' weights.
template <int Dims, int Columns>
struct PointWeights {
  using T = TileShape<Dims>;
  using S = Staged<Dims, Columns>;
  const typename S::Weights& weight;
  int sample, row;
  float4 x, xy[2];  // factors that all of the tile's points share

  __device__ __forceinline__ PointWeights(const typename S::Weights& all, int first, int row_)
      : weight(all), sample(first), row(row_) {
    if constexpr (Dims == 2) x = of(row);
    if constexpr (Dims == 3) {
      x = of(row % T::kX);
      for (int half = 0; half < 2; ++half) xy[half] = multiplied(x, of(S::kY + row / T::kX + 2 * half));
    }
  }
  __device__ __forceinline__ float4 of(int q) const { return *reinterpret_cast<const float4*>(&weight[q][sample]); }
  /// The weights at point 16 m + row + 8 half.
  __device__ __forceinline__ float4 at(int m, int half) const {
    if constexpr (Dims == 1) return of(16 * m + row + 8 * half);
    if constexpr (Dims == 2) return multiplied(x, of(S::kY + 2 * m + half));
    return multiplied(xy[half], of(S::kZ + m));
  }
};

/// Adds kDepth samples of the batch from `first` on. `value`: a value of the batch.
template <int Dims, int Columns, Sums Exactness>
__device__ __forceinline__ void add_samples(const float (&value)[kBatch][Staged<Dims, Columns>::kValueStride],
                                            const typename Staged<Dims, Columns>::Weights& weight, int first, int lane,
                                            LaneSums<Columns>& sum) {
  const int row = lane / 4, column = lane % 4;  // row and column of the operation's fragments
  const int sample = first + 4 * column;
  float v[4][Columns];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* from = &value[sample + i][swizzled(Columns * row, sample)];
    if constexpr (Columns == 4) {
      const float4 four = *reinterpret_cast<const float4*>(from);
      v[i][0] = four.x, v[i][1] = four.y, v[i][2] = four.z, v[i][3] = four.w;
    } else if constexpr (Columns == 2) {
      const float2 two = *reinterpret_cast<const float2*>(from);
      v[i][0] = two.x, v[i][1] = two.y;
    } else {
      v[i][0] = *from;
    }
  }
  Right<Exactness> right[Columns];
#pragma unroll
  for (int c = 0; c < Columns; ++c) right[c].set(v[0][c], v[1][c], v[2][c], v[3][c]);
  const PointWeights<Dims, Columns> weights(weight, sample, row);
#pragma unroll
  for (int m = 0; m < kTilePoints / 16; ++m) add_products<Exactness>(weights.at(m, 0), weights.at(m, 1), right, sum[m]);
}

}  // namespace echotrain::numerics::cuda
