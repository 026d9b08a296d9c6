// Common parts of the direct transform's matrix products: the layout of their factors in memory, and the loads of a
// block.
#pragma once

#include <cuda_fp16.h>

#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/transforms/exact/direct_transform_tiles.cuh"

namespace echotrain::numerics::cuda {

constexpr int kStep = 16;  // samples of one product of tiles
constexpr int kStepsOfGroup = kDirectGroup / kStep;
constexpr int kBlockThreads = kWarps * 32;
static_assert(kBlockThreads == kGroups * kStep && kBlockThreads == kDirectGroup);

/// The data of a step's samples besides their values: exp(2 pi i ky j), j = 0 .. 7, and the advance of the phase along
/// y and z.
struct alignas(16) StepPhases {
  float2 near[2][kGroupColumns][8];  // [half of the step, j, sample of the half]
  int4 far[kStep];                   // ky, kz in 2^-32 turns, each with the rest in 2^-48 turns
};
struct alignas(16) StepData {
  float2 d[kStep];
};

/// The bytes of the right factor of a step and `rows` rows: fp16 tiles of 8 rows x 8 samples, high parts before low
/// parts.
constexpr int right_bytes(bool exact, int rows) { return rows * kStep * 2 * (exact ? 2 : 1); }

struct Work {
  const unsigned char* right;  // [block of rows, step, right_bytes]
  const StepPhases* phases;    // [step]
  const StepData* data;        // [coil, step]
  const float* scales;         // [coil, group]: factors of the sums
  int steps;
  std::int64_t capacity;  // steps that the arrays have room for
  float* sums;
};

__device__ inline void split(float a, float b, std::uint32_t& high, std::uint32_t& low) {
  const half2 h = __floats2half2_rn(a, b);
  const float2 back = __half22float2(h);
  const half2 l = __floats2half2_rn(a - back.x, b - back.y);
  high = reinterpret_cast<const std::uint32_t&>(h);
  low = reinterpret_cast<const std::uint32_t&>(l);
}

__device__ inline std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}
/// A lane's part of the left factor of a step: for each of a warp's m-tiles, the real and the imaginary part of its
/// column at two neighbouring samples of each half.
template <bool kExact, int kTiles = 2>
struct Left {
  std::uint32_t high[kTiles][4], low[kTiles][kExact ? 4 : 1];
};

/// d exp(2 pi i (ky y + kz z)) for a sample of a step.
template <bool kExact>
__device__ float2 make_base(const StepPhases& phases, const StepData& data, int sample, int2 at) {
  const int4 far = phases.far[sample];
  std::uint32_t phase = static_cast<std::uint32_t>(far.x) * static_cast<std::uint32_t>(at.x) +
                        static_cast<std::uint32_t>(far.z) * static_cast<std::uint32_t>(at.y);
  if (kExact) phase += static_cast<std::uint32_t>((far.y * at.x + far.w * at.y) >> 16);
  return data.d[sample] * (kExact ? wave(phase) : quick_wave(phase));
}

/// One half of a step's left factor for one m-tile, whose group of columns has these bases.
template <bool kExact, int kTiles>
__device__ void make_left(Left<kExact, kTiles>& left, int tile, int half, const StepPhases& phases,
                          const float2 (&bases)[kStep]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float4 near = *reinterpret_cast<const float4*>(&phases.near[half][lane / 4][lane % 4 * 2]);
  const float4 base = *reinterpret_cast<const float4*>(&bases[half * 8 + lane % 4 * 2]);
  const float2 a = make_float2(near.x, near.y) * make_float2(base.x, base.y),
               b = make_float2(near.z, near.w) * make_float2(base.z, base.w);
  if constexpr (kExact) {
    split(a.x, b.x, left.high[tile][2 * half], left.low[tile][2 * half]);
    split(a.y, b.y, left.high[tile][2 * half + 1], left.low[tile][2 * half + 1]);
  } else {
    const half2 re = __floats2half2_rn(a.x, b.x), im = __floats2half2_rn(a.y, b.y);
    left.high[tile][2 * half] = reinterpret_cast<const std::uint32_t&>(re);
    left.high[tile][2 * half + 1] = reinterpret_cast<const std::uint32_t&>(im);
  }
}

/// Adds a lane's sums of a group, for one m-tile, to its totals: totals[i * 32].
template <int kTiles>
__device__ void add_group(const float (&sum)[kTiles][4], float scale, float4* totals) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    float4 total = totals[i * 32];
    total.x = fmaf(sum[i][0], scale, total.x);
    total.y = fmaf(sum[i][1], scale, total.y);
    total.z = fmaf(sum[i][2], scale, total.z);
    total.w = fmaf(sum[i][3], scale, total.w);
    totals[i * 32] = total;
  }
}

/// A lane's sums of a group in device memory; there are `kRows` / 8, 32 apart, and then those of the next group.
template <int kRows>
__device__ float4* lane_sums(const DirectTiles& tiles, const Work& work, std::int64_t group, int lane) {
  const std::int64_t all = (blockIdx.z * tiles.blocks + blockIdx.y) * tiles.tiles * kGroups + group;
  return reinterpret_cast<float4*>(work.sums) + all * (kRows / 8 * 32) + lane;
}

/// The position of the first column of a group: (y, z) in voxels from the middle.
__device__ inline int2 group_position(const DirectGrid& grid, const DirectTiles& tiles, std::int64_t group) {
  return make_int2(static_cast<int>(tiles.y0 + group % tiles.per_row * kGroupColumns - grid.ny / 2),
                   static_cast<int>(tiles.z0 + group / tiles.per_row - grid.nz / 2));
}

/// The product for devices of compute capability 9.0, by their own instructions, in direct_transform_hopper_cuda.cu.
/// hopper() is true if the context's device is one, and false with ResourceOptions::hopper = false, for tests of the
/// other product.
#if ECHOTRAIN_HAS_HOPPER
bool hopper(Context& context);
void multiply_on_hopper(Context& context, const DirectGrid& grid, const DirectTiles& tiles, const Work& work);
#else  // the compiler cannot build it
inline bool hopper(Context& /*context*/) { return false; }
inline void multiply_on_hopper(Context&, const DirectGrid&, const DirectTiles&, const Work&) {}
#endif

}  // namespace echotrain::numerics::cuda
