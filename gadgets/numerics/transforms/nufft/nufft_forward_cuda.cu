// Interpolation as a matrix product on the tensor cores, sample[s, coil] = sum over points of weight[s, point]
// grid[point, coil], for samples whose footprints begin in one box of 8 x 8 or 4 x 4 x 4 points: all of them lie in a
// little more than that. A block of threads takes a piece of a bin and some coils. It stages the grid around the bin in
// shared memory; then each warp takes 16 samples at a time, computes their weights, and multiplies them with the points
// of the boxes that they are in. The last axis is left to plain fp32, and so is the sum along it.
//
// Both factors are split into two fp16 numbers each, of which three products are added: the omitted one is 2^-22 of the
// whole, as in fp32. A power of 2 scales the values of a bin and coil to the range of fp16. No atomics: a sample's sum
// has one fixed order. Source of the split: Markidis et al., IPDPSW 2018.
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/transforms/nufft/nufft_plan.h"
#include "gadgets/numerics/transforms/nufft/nufft_window_cuda.cuh"

namespace echotrain::numerics::cuda {
namespace {

constexpr unsigned kWholeWarp = 0xffffffffu;
constexpr int kRows = 16;    // samples that a warp takes at a time
constexpr int kColumns = 8;  // columns of a product: real and imaginary parts of four coils

/// The staging and multiplication of a bin. A unit is four points, so that a lane reads both of its factors of a
/// product at once: 2 x 2 points where 8 columns of points are enough for a box, otherwise 4 of a row.
template <int Dims, int Width, int Coils>
struct Staging {
  static constexpr bool kPlanes = Dims == 3;
  static constexpr int kBox = kPlanes ? 4 : 8, kReach = kBox + Width - 1;  // a box, and the extent of its footprints
  static constexpr int kUnitY = kPlanes && kReach <= 8 ? 2 : 1, kUnitX = 4 / kUnitY;
  static constexpr int kSpan = 4 * kUnitX;                                     // points of a product's rows
  static constexpr int kInner = kPlanes ? (kReach + kUnitY - 1) / kUnitY : 1;  // products in a plane of a box
  static constexpr int kSpanY = kPlanes ? kInner * kUnitY : 0;                 // rows of it, in 3D
  static constexpr int kOuterAxis = kPlanes ? 0 : 1;                           // the axis left to fp32
  static constexpr int kX = bin_edge(2, Dims, Width) + Width - 1;              // the extent of a bin's footprints
  static constexpr int kY = bin_edge(1, Dims, Width) + Width - 1;
  static constexpr int kOuter = bin_edge(kOuterAxis, Dims, Width) + Width - 1;
  static constexpr int kEnd = bin_edge(2, Dims, Width) - kBox;  // begin of a bin's last box
  static constexpr int kUnitsX =                                // points of units behind these have weight 0
      std::min((kEnd + kSpan) / kUnitX, (kX + 3) / 4 * 4 / kUnitX);
  static constexpr int kUnitsY = kPlanes ? (bin_edge(1, Dims, Width) - kBox + kSpanY) / kUnitY : 1;
  static constexpr int kNumbers = 2 * Coils;                                        // numbers of a point
  static constexpr int kProducts = kNumbers <= kColumns ? 1 : kNumbers / kColumns;  // side by side
  static constexpr int kUnitWords = 4 * kNumbers;  // fp16 pairs: high parts of two neighbours, twice, then low
  static constexpr int kSliceWords = kUnitsY * kUnitsX * kUnitWords;
  // A thread loads and stores halves of units of a coil, the same in each slice along the last axis, or every other
  // one.
  static constexpr int kSlice = kUnitsY * kUnitsX * 2 * Coils, kSlices = std::max(1, 256 / kSlice);
  static constexpr int kLoads = (kOuter + kSlices - 1) / kSlices;
  static constexpr int kWarps = (kSlice * kSlices + 31) / 32, kBlock = 32 * kWarps;
  static constexpr int kWeights = (kSpan + kSpanY + kReach) * kRows;  // floats of a warp
  static constexpr int kGridBytes = kOuter * kSliceWords * 4, kBytes = kGridBytes + kWarps * kWeights * 4;
  static_assert(kBox % kUnitX == 0 && kBox % kUnitY == 0 && kUnitsX % kUnitY == 0 && kWeights % 4 == 0);
  /// Number n of unit x's numbers lies at this multiple of four words, so that simultaneous reads and stores hit
  /// different banks.
  __device__ static __forceinline__ int place(int x, int n) {
    return kNumbers >= kColumns ? n ^ (2 * (x & 3)) ^ (x & 1) : kNumbers == 4 ? n ^ (x & 2) : n;
  }
};

struct BinView {
  Tiling tiling;
  Windows windows;
  const Footprint* footprints;
  const std::int32_t* order;
  const BinPiece* bins;
  bool short_windows;  ///< true: kFewTerms are enough
};
constexpr int kFewTerms = 12;

__device__ inline std::int32_t wrapped(std::int32_t i, std::int32_t extent) {
  while (i >= extent) i -= extent;
  return i;
}

/// Two numbers as two fp16 numbers each, packed with the first in the lower half.
struct Halves {
  std::uint32_t high, low;
};
__device__ __forceinline__ Halves split_fp16(float lower, float upper) {
  const __half2 high = __floats2half2_rn(lower, upper);
  const float2 back = __half22float2(high);
  const __half2 low = __floats2half2_rn(lower - back.x, upper - back.y);
  return {*reinterpret_cast<const std::uint32_t*>(&high), *reinterpret_cast<const std::uint32_t*>(&low)};
}

/// sum[16, 8] = start + a[16, 16] b[16, 8]; the fragments' layout is PTX's for mma.m16n8k16.f16.
__device__ __forceinline__ void multiply_fp16(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                              std::uint32_t b1, const float (&start)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, "
      "%13};"
      : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(start[0]), "f"(start[1]), "f"(start[2]),
        "f"(start[3]));
}

/// 2^exponent, of a normal number.
__device__ __forceinline__ float power_of_2(int exponent) { return __int_as_float((exponent + 127) << 23); }
constexpr int kWeightExponent = 12, kValueExponent = 14;  // the greatest weight and value become 2^these or twice that

/// Stages the grid around a bin. A coil's values are multiplied by a power of 2, whose exponent is noted.
template <int Dims, int Width, int Coils>
__device__ __forceinline__ void stage_bin(const Tiling& t, const BinPiece& piece, const float2* grid,
                                          std::int64_t coils, bool aligned, std::uint32_t* tile,
                                          int (&exponents)[Coils]) {
  using S = Staging<Dims, Width, Coils>;
  __shared__ unsigned greatest[Coils];  // floats that are not negative have the order of their bits
  if (threadIdx.x < Coils) greatest[threadIdx.x] = 0;
  __syncthreads();
  const std::int64_t plane = static_cast<std::int64_t>(t.grid[1]) * t.grid[2], grid_size = t.grid[0] * plane;
  // Neighbouring threads load neighbouring points, and store to different banks.
  const auto thread = static_cast<int>(threadIdx.x), item = thread % S::kSlice, slice = thread / S::kSlice;
  const int coil = item / 2 % Coils;
  int half = item % 2, unit = item / 2 / Coils;
  if constexpr (S::kUnitY == 2) {  // 2 x 2 points: halves are above each other
    const int low = half;
    half = unit % 2;
    unit = unit / 2 * 2 + low;
  }
  const int ux = unit % S::kUnitsX, uy = unit / S::kUnitsX;
  const int px = ux * S::kUnitX + (S::kUnitY == 1 ? 2 * half : 0);
  const int py = uy * S::kUnitY + (S::kUnitY == 2 ? half : 0);  // y in 3D
  // An axis of the grid has an even number of points, and a bin begins at an even one.
  const float2* const from =
      grid + coil * grid_size + wrapped(piece.origin[2] + px, t.grid[2]) +
      (S::kPlanes ? static_cast<std::int64_t>(wrapped(piece.origin[1] + py, t.grid[1])) * t.grid[2] : 0);
  const bool there = slice < S::kSlices && coil < coils && px < S::kX && (!S::kPlanes || py < S::kY);
  const bool both = px + 1 < S::kX;
  const std::int32_t extent = t.grid[S::kOuterAxis], step = S::kSlices % extent;
  const std::int64_t stride = S::kPlanes ? plane : t.grid[2];
  // All loads begin before any is waited for, so there are no branches between them.
  float4 value[S::kLoads];
  const auto load = [&](const auto& read) {
    std::int32_t at = wrapped(piece.origin[S::kOuterAxis] + slice, extent);
#pragma unroll
    for (int k = 0; k < S::kLoads; ++k) {
      value[k] = make_float4(0, 0, 0, 0);
      if (there && slice + k * S::kSlices < S::kOuter) value[k] = read(from + at * stride);
      at += step;
      at -= at >= extent ? extent : 0;
    }
  };
  if (aligned)
    load([](const float2* point) { return *reinterpret_cast<const float4*>(point); });
  else
    load([](const float2* point) {
      const float2 first = point[0], second = point[1];
      return make_float4(first.x, first.y, second.x, second.y);
    });
  float most = 0;
#pragma unroll
  for (int k = 0; k < S::kLoads; ++k) {
    if (!both) value[k].z = value[k].w = 0;
    most = fmaxf(fmaxf(most, fmaxf(fabsf(value[k].x), fabsf(value[k].y))), fmaxf(fabsf(value[k].z), fabsf(value[k].w)));
  }
  atomicMax(&greatest[coil], __float_as_uint(most));
  __syncthreads();
  const auto exponent_of = [&](int c) { return min(kValueExponent + 127 - static_cast<int>(greatest[c] >> 23), 126); };
  if (thread < Coils) exponents[thread] = exponent_of(thread);
  const float factor = power_of_2(exponent_of(coil));

  std::uint32_t* const to = tile + (uy * S::kUnitsX + ux) * S::kUnitWords + half;
  std::uint32_t* const to_re = to + 4 * S::place(ux, 2 * coil);
  std::uint32_t* const to_im = to + 4 * S::place(ux, 2 * coil + 1);
#pragma unroll
  for (int k = 0; k < S::kLoads; ++k) {
    const int outer = slice + k * S::kSlices;
    if (slice >= S::kSlices || outer >= S::kOuter) continue;
    const float4 v = value[k];
    const Halves re = split_fp16(v.x * factor, v.z * factor), im = split_fp16(v.y * factor, v.w * factor);
    to_re[outer * S::kSliceWords] = re.high, to_re[outer * S::kSliceWords + 2] = re.low;
    to_im[outer * S::kSliceWords] = im.high, to_im[outer * S::kSliceWords + 2] = im.low;
  }
}

/// A sample of a warp's 16, as two lanes hold it.
template <int Dims>
struct Placed {
  std::int32_t sample;
  int box;          ///< its number in the bin, 4 bits an axis; slowest axis first
  int start[Dims];  ///< start of the footprint in the box, slowest axis first
  float shift[Dims];
  bool nowhere;
};

template <int Dims, int Width, int Coils>
__device__ __forceinline__ Placed<Dims> place_sample(const BinView& plan, const BinPiece& piece, int i) {
  using S = Staging<Dims, Width, Coils>;
  Placed<Dims> p;
  p.sample = plan.order[piece.begin + min(i, piece.count - 1)];
  const int4* from = reinterpret_cast<const int4*>(plan.footprints + p.sample);
  const int4 first = from[0];
  const int2 second = *reinterpret_cast<const int2*>(from + 1);
  const std::int32_t start[3] = {first.x, first.y, first.z};
  const float shift[3] = {__int_as_float(first.w), __int_as_float(second.x), __int_as_float(second.y)};
  p.nowhere = first.x == Footprint::kNowhere;
  p.box = 0;
#pragma unroll
  for (int a = 0; a < Dims; ++a) {
    const unsigned at = p.nowhere ? 0 : start[a] - piece.origin[3 - Dims + a];
    p.box = p.box << 4 | static_cast<int>(at / S::kBox);
    p.start[a] = static_cast<int>(at % S::kBox);
    p.shift[a] = shift[a];
  }
  return p;
}

/// Spreads the weights of 16 samples over the points of their boxes' axes, weights[x, then y of 3D, then the last axis]
/// [sample]. Lanes `sample` and `sample` + 16 share the work.
template <int Dims, int Width, int Coils>
__device__ __forceinline__ void spread_weights(const BinView& plan, const Placed<Dims>& p, int lane, float* weights) {
  using S = Staging<Dims, Width, Coils>;
#pragma unroll
  for (int i = 0; i < S::kWeights; i += 4 * 32)
    if (i + 4 * lane < S::kWeights) *reinterpret_cast<float4*>(weights + i + 4 * lane) = make_float4(0, 0, 0, 0);
  __syncwarp();
  constexpr int kMine = (Width + 1) / 2;
  const int first = lane / kRows * kMine;
  constexpr int kRowOf[3] = {S::kSpan + S::kSpanY, S::kSpan, 0};  // by axis; in 2D y is the last one
  const auto spread = [&](auto terms) {
#pragma unroll
    for (int a = 0; a < Dims; ++a) {
      float* const to = weights + (kRowOf[3 - Dims + a] + p.start[a] + first) * kRows + lane % kRows;
#pragma unroll
      for (int k = 0; k < kMine; ++k) {
        const float w =
            window_at<terms>(plan.windows.axis[3 - Dims + a], Width, static_cast<float>(first + k), p.shift[a]);
        if (!p.nowhere && first + k < Width) to[k * kRows] = w;
      }
    }
  };
  if (plan.short_windows)
    spread(std::integral_constant<int, kFewTerms>{});
  else
    spread(std::integral_constant<int, WindowPolynomial::kMostTerms>{});
  __syncwarp();
}

/// Adds the points of the box at `from`, for the samples that have `mine`: the lane's samples are rows 2 (lane / 4) and
/// one more.
template <int Dims, int Width, int Coils>
__device__ __forceinline__ void add_box(const float* weights, const std::uint32_t* tile, int box, int lane, float2 mine,
                                        float (&sum)[Staging<Dims, Width, Coils>::kProducts][4]) {
  using S = Staging<Dims, Width, Coils>;
  const int row = 2 * (lane / 4), q = lane % 4;
  const auto of = [&](int point) { return *reinterpret_cast<const float2*>(weights + point * kRows + row); };
  float2 x[S::kUnitX];
#pragma unroll
  for (int i = 0; i < S::kUnitX; ++i) {
    x[i] = of(S::kUnitX * q + i);
    x[i].x *= mine.x;
    x[i].y *= mine.y;
  }
  std::uint32_t high[S::kInner][4], low[S::kInner][4];
#pragma unroll
  for (int j = 0; j < S::kInner; ++j)
#pragma unroll
    for (int h = 0; h < 2; ++h) {  // the halves of a unit
      const float2 first = x[S::kUnitY == 1 ? 2 * h : 0], second = x[S::kUnitY == 1 ? 2 * h + 1 : 1];
      const float2 y = S::kPlanes ? of(S::kSpan + S::kUnitY * j + (S::kUnitY == 2 ? h : 0)) : make_float2(1, 1);
      const Halves upper = split_fp16(first.x * y.x, second.x * y.x), lower = split_fp16(first.y * y.y, second.y * y.y);
      high[j][2 * h] = upper.high, high[j][2 * h + 1] = lower.high;
      low[j][2 * h] = upper.low, low[j][2 * h + 1] = lower.low;
    }

  const int outer = (S::kPlanes ? box >> 8 : box >> 4) * S::kBox,
            uy = S::kPlanes ? (box >> 4 & 15) * S::kBox / S::kUnitY : 0;
  // The last lanes' points may lie beyond the staged ones: their weights are 0.
  const int ux = min((box & 15) * S::kBox / S::kUnitX + q, S::kUnitsX - 1);
  const std::uint32_t* from =
      tile + ((outer * S::kUnitsY + uy) * S::kUnitsX + ux) * S::kUnitWords + 4 * S::place(ux, lane / 4 % S::kNumbers);
#pragma unroll 2
  for (int o = 0; o < S::kReach; ++o, from += S::kSliceWords) {
    float part[S::kProducts][4] = {};
#pragma unroll
    for (int j = 0; j < S::kInner; ++j)
#pragma unroll
      for (int c = 0; c < S::kProducts; ++c) {
        const uint4 v = *reinterpret_cast<const uint4*>(from + j * S::kUnitsX * S::kUnitWords + c * 4 * kColumns);
        multiply_fp16(part[c], low[j], v.x, v.y, part[c]);
        multiply_fp16(part[c], high[j], v.z, v.w, part[c]);
        multiply_fp16(part[c], high[j], v.x, v.y, part[c]);
      }
    const float2 last = of(S::kSpan + S::kSpanY + o);
#pragma unroll
    for (int c = 0; c < S::kProducts; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[c][i] += (i < 2 ? last.x : last.y) * part[c][i];
  }
}

/// The blocks that a multiprocessor shall hold at once.
constexpr int blocks_at_once(int dims, int width) { return dims == 2 ? 4 : width <= 5 ? 3 : 2; }

/// blockDim = kBlock; gridDim = pieces * groups of coils; a piece's groups are next to each other. `aligned`: the grid
/// lies at a multiple of 16 bytes.
template <int Dims, int Width, int Coils>
__global__ void __launch_bounds__(Staging<Dims, Width, Coils>::kBlock, blocks_at_once(Dims, Width))
    interpolate_kernel(BinView plan, const float2* __restrict__ grid, std::int64_t count, std::int64_t first_coil,
                       std::int64_t all_coils, unsigned groups, bool aligned, float2* __restrict__ samples) {
  using S = Staging<Dims, Width, Coils>;
  extern __shared__ __align__(16) std::uint32_t tile[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float* const weights = reinterpret_cast<float*>(tile + S::kGridBytes / 4) + warp * S::kWeights;
  const Tiling& t = plan.tiling;
  const BinPiece piece = plan.bins[blockIdx.x / groups];
  const std::int64_t coil = static_cast<std::int64_t>(blockIdx.x % groups) * Coils;  // first coil of those done now
  const std::int64_t grid_size = static_cast<std::int64_t>(t.grid[0]) * t.grid[1] * t.grid[2];
  Placed<Dims> next = place_sample<Dims, Width, Coils>(plan, piece, kRows * warp + lane % kRows);
  __shared__ int exponents[Coils];
  stage_bin<Dims, Width, Coils>(t, piece, grid + coil * grid_size, count - coil, aligned, tile, exponents);
  __syncthreads();

  const float raise = power_of_2(kWeightExponent);
  for (int base = kRows * warp; base < piece.count; base += kRows * S::kWarps) {
    const Placed<Dims> placed = next;
    next = place_sample<Dims, Width, Coils>(plan, piece, base + kRows * S::kWarps + lane % kRows);
    spread_weights<Dims, Width, Coils>(plan, placed, lane, weights);
    // The boxes of the samples, one after the other: mostly one, as samples are in order.
    const int row = 2 * (lane / 4);
    const int first_box = __shfl_sync(kWholeWarp, placed.box, row),
              second_box = __shfl_sync(kWholeWarp, placed.box, row + 1);
    float sum[S::kProducts][4] = {};
    unsigned left = kWholeWarp;
    while (left != 0) {
      const int box = __shfl_sync(kWholeWarp, placed.box, __ffs(left) - 1);
      left &= ~__ballot_sync(kWholeWarp, placed.box == box);
      add_box<Dims, Width, Coils>(weights, tile, box, lane,
                                  make_float2(first_box == box ? raise : 0, second_box == box ? raise : 0), sum);
    }
    __syncwarp();  // the weights are used up
    const std::int64_t first = __shfl_sync(kWholeWarp, placed.sample, row),
                       second = __shfl_sync(kWholeWarp, placed.sample, row + 1);
    const unsigned nowhere = __ballot_sync(kWholeWarp, placed.nowhere) >> row;
#pragma unroll
    for (int c = 0; c < S::kProducts; ++c) {
      const int mine = c * (kColumns / 2) + lane % 4;
      if (mine >= Coils || coil + mine >= count) continue;
      // Two factors are used, because their product may be less than the least normal number.
      const float of_weight = power_of_2(-kWeightExponent), of_value = power_of_2(-exponents[mine]);
      const auto lifted = [&](float re, float im) {
        return make_float2(re * of_weight * of_value, im * of_weight * of_value);
      };
      float2* const to = samples + first_coil + coil + mine;
      if (base + row < piece.count)
        to[first * all_coils] = nowhere & 1 ? make_float2(0, 0) : lifted(sum[c][0], sum[c][1]);
      if (base + row + 1 < piece.count)
        to[second * all_coils] = nowhere & 2 ? make_float2(0, 0) : lifted(sum[c][2], sum[c][3]);
    }
  }
}

/// Sums a sample of a coil in one thread, in 1D, which no pipeline uses.
__global__ void interpolate_line_kernel(Tiling t, Windows windows, const Footprint* footprints, std::int64_t n,
                                        const float2* grid, std::int64_t count, std::int64_t first_coil,
                                        std::int64_t all_coils, float2* samples) {
  ECHOTRAIN_GRID_STRIDE(i, n * count) {
    const std::int64_t s = i / count, coil = i % count;
    const Footprint f = footprints[s];
    float2 sum = make_float2(0, 0);
    for (int j = 0; j < t.width && f.start[0] != Footprint::kNowhere; ++j) {
      const float w = window_at<>(windows.axis[2], t.width, static_cast<float>(j), f.shift[0]);
      const float2 v = grid[coil * t.grid[2] + wrapped(f.start[0] + j, t.grid[2])];
      sum.x += w * v.x;
      sum.y += w * v.y;
    }
    samples[s * all_coils + first_coil + coil] = sum;
  }
}

template <int Dims, int Width, int Coils>
void launch(Context& context, const NufftPlan::Impl& plan, const InterpolateArguments& arguments) {
  using S = Staging<Dims, Width, Coils>;
  constexpr std::size_t kWithoutAsking = 48 << 10;
  static_assert(S::kBytes <= 98 << 10, "more than the smallest device has");
  const cudaStream_t stream = stream_of(context);
  const std::int64_t groups = (arguments.count + Coils - 1) / Coils, blocks = plan.bins.size() * groups;
  if (blocks > INT32_MAX) throw std::invalid_argument("nufft: too many coils");
  const auto kernel = interpolate_kernel<Dims, Width, Coils>;
  if (S::kBytes > kWithoutAsking)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes),
          "asking for shared memory");
  BinView view{
      plan.tiling, {}, plan.footprints.data(), plan.order.data(), plan.bins.data(), are_short(plan.windows, kFewTerms)};
  std::copy_n(plan.windows, 3, view.windows.axis);
  const float2* const grid = device_view(arguments.grid);
  kernel<<<static_cast<unsigned>(blocks), S::kBlock, S::kBytes, stream>>>(
      view, grid, arguments.count, arguments.first, arguments.coils, static_cast<unsigned>(groups),
      reinterpret_cast<std::uintptr_t>(grid) % 16 == 0, device_view(arguments.samples));
  check_launch("interpolate");
}

template <int Dims, int Width = NufftOptions::kNarrowest>
void launch_width(Context& context, const NufftPlan::Impl& plan, const InterpolateArguments& arguments) {
  if constexpr (Width <= NufftOptions::kWidest) {
    constexpr int kMost = Dims == 2 ? 8 : Width <= 5 ? 4 : 2;  // coils of a block for which shared memory has room
    if (plan.tiling.width != Width)
      launch_width<Dims, Width + 1>(context, plan, arguments);
    else if (arguments.count == 1)
      launch<Dims, Width, 1>(context, plan, arguments);
    else if (kMost > 4 && arguments.count <= 4)
      launch<Dims, Width, std::min(4, kMost)>(context, plan, arguments);
    else
      launch<Dims, Width, kMost>(context, plan, arguments);
  }
}

void interpolate_line(Context& context, const NufftPlan::Impl& plan, const InterpolateArguments& arguments) {
  Windows windows;
  std::copy_n(plan.windows, 3, windows.axis);
  interpolate_line_kernel<<<blocks_for(plan.samples * arguments.count), kThreads, 0, stream_of(context)>>>(
      plan.tiling, windows, plan.footprints.data(), plan.samples, device_view(arguments.grid), arguments.count,
      arguments.first, arguments.coils, device_view(arguments.samples));
  check_launch("interpolate");
}

/// The index on the image's axis, of n, for index i on the grid's axis, of g, which is in FFT order; outside [0, n)
/// where the grid is empty.
__device__ inline int image_index(int i, int n, int g) { return (i < n - n / 2 ? i : i - g) + n / 2; }

/// One warp per row of the grid. `factors`: those of the image's axes one after another.
__global__ void apodize_kernel(Tiling t, const float* factors, const float2* image, std::int64_t rows, float2* grid) {
  const int nx = t.image[2], ny = t.image[1], nz = t.image[0], lane = threadIdx.x % 32;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (blockDim.x / 32);
  const float* fy = factors + (t.dims > 2 ? nz : 0);
  const float* fx = fy + (t.dims > 1 ? ny : 0);
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32; row < rows;
       row += warps) {
    const std::int64_t plane = row / t.grid[1], c = plane / t.grid[0];
    const int y = image_index(static_cast<int>(row % t.grid[1]), ny, t.grid[1]);
    const int z = image_index(static_cast<int>(plane % t.grid[0]), nz, t.grid[0]);
    float2* to = grid + row * t.grid[2];
    const bool empty = y < 0 || z < 0;
    const float factor = empty ? 0.0f : (t.dims > 2 ? factors[z] : 1.0f) * (t.dims > 1 ? fy[y] : 1.0f);
    const float2* from = image + ((c * nz + z) * ny + y) * nx;
    for (int i = lane; i < t.grid[2]; i += 32) {
      const int x = image_index(i, nx, t.grid[2]);
      float2 v = make_float2(0.0f, 0.0f);
      if (!empty && x >= 0) {
        const float f = factor * fx[x];
        v = make_float2(from[x].x * f, from[x].y * f);
      }
      to[i] = v;
    }
  }
}

}  // namespace

void interpolate(Context& context, const NufftPlan::Impl& plan, const InterpolateArguments& arguments) {
  if (plan.tiling.dims == 3)
    launch_width<3>(context, plan, arguments);
  else if (plan.tiling.dims == 2)
    launch_width<2>(context, plan, arguments);
  else
    interpolate_line(context, plan, arguments);
}

void apodize(Context& context, const NufftPlan::Impl& plan, const cfloat* image, std::int64_t coils, cfloat* grid) {
  const Tiling& t = plan.tiling;
  const std::int64_t rows = coils * t.grid[0] * t.grid[1];
  apodize_kernel<<<blocks_for(rows * 32), kThreads, 0, stream_of(context)>>>(
      t, plan.deapodization.data(), device_view(image), rows, device_view(grid));
  check_launch("apodize");
}

}  // namespace echotrain::numerics::cuda
