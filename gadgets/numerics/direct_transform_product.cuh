// What the direct transform's matrix products share: how their factors lie in memory, and how a block comes by them.
#pragma once

#include <cuda_fp16.h>

#include "gadgets/numerics/cuda_support.cuh"
#include "gadgets/numerics/direct_transform_tiles.cuh"

namespace echotrain::numerics::cuda {

constexpr int kStep = 16;  // samples of one product of tiles
constexpr int kStepsOfGroup = kDirectGroup / kStep;
constexpr int kBlockThreads = kWarps * 32;
static_assert(kBlockThreads == kGroups * kStep && kBlockThreads == kDirectGroup);

/// What a step needs of each sample but its data: exp(2 pi i ky j), j = 0 .. 7, and how phases go on along y and z.
struct alignas(16) StepPhases {
  float2 near[2][kGroupColumns][8];  // [half of the step, j, sample of the half]
  longlong2 far[kStep];              // ky, kz in turns
};
struct alignas(16) StepData {
  float2 d[kStep];
};

/// Bytes of the right factor of a step and `rows` rows: fp16 tiles of 8 rows x 8 samples, high parts before low parts.
constexpr int right_bytes(bool exact, int rows) { return rows * kStep * 2 * (exact ? 2 : 1); }

struct Work {
  const unsigned char* right;  // [block of rows, step, right_bytes]
  const StepPhases* phases;    // [step]
  const StepData* data;        // [coil, step]
  const float* scales;         // [coil, group]: what sums are multiplied by
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
__device__ inline void copy_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ inline void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// A lane's part of the left factor of a step: of each of a warp's m-tiles the real and the imaginary part of its
/// column for two neighbouring samples of each half.
template <bool kExact>
struct Left {
  std::uint32_t high[2][4], low[2][kExact ? 4 : 1];
};

/// A block's shared memory, and what its threads do but multiply. They work in rounds of kRound steps, whose factors
/// are in one of kStages places.
template <bool kExact, int kRows, int kRound, int kStages>
class Block {
 public:
  static constexpr int kTiles = kRows / 8, kRightBytes = right_bytes(kExact, kRows);
  /// Rounds whose factors a round needs beside its own: bases are made two steps ahead and more.
  static constexpr int kAhead = kRound == 1 ? 2 : 1;
  struct Stage {
    alignas(128) unsigned char right[kRound][kRightBytes];
    StepPhases phases[kRound];
    StepData data[kRound];
  };
  struct Memory {
    Stage stages[kStages];
    float2 bases[2 * kRound][kGroups][kStep];  // d exp(2 pi i (ky y + kz z)) at each group's first column
    float4 sums[kWarps][2][kTiles][32];
  };

  __device__ Block(const DirectGrid& grid, const DirectTiles& tiles, const Work& work, Memory& memory)
      : memory_(memory),
        steps(work.steps),
        thread_(static_cast<int>(threadIdx.x)),
        right_(work.right + blockIdx.y * work.capacity * kRightBytes),
        phases_(work.phases),
        data_(work.data + blockIdx.z * work.capacity),
        scales_(work.scales + blockIdx.z * (work.capacity / kStepsOfGroup)),
        all_sums_(reinterpret_cast<float4*>(work.sums) +
                  ((blockIdx.z * tiles.blocks + blockIdx.y) * tiles.tiles + blockIdx.x) * (sizeof(memory.sums) / 16) +
                  thread_ / 32 * 2 * kTiles * 32 + thread_ % 32),
        sums_(&memory.sums[thread_ / 32][0][0][thread_ % 32]) {
    const std::int64_t group = static_cast<std::int64_t>(blockIdx.x) * kGroups + thread_ / kStep;
    y_ = tiles.y0 + group % tiles.per_row * kGroupColumns - grid.ny / 2;
    z_ = tiles.z0 + group / tiles.per_row - grid.nz / 2;
    for (int i = 0; i < 2 * kTiles; ++i) sums_[i * 32] = all_sums_[i * 32];
  }
  __device__ void end() {
    for (int i = 0; i < 2 * kTiles; ++i) all_sums_[i * 32] = sums_[i * 32];
  }

  /// Starts copies of a round's factors; to be called for each round in turn.
  __device__ void fetch(int round) {
    const int step = round * kRound;
    if (step < steps) {
      Stage& to = memory_.stages[round % kStages];
      copy(to.right, right_ + static_cast<std::int64_t>(step) * kRightBytes, 0);
      copy(to.phases, phases_ + step, 0);
      copy(to.data, data_ + step, sizeof(to.phases) % (kBlockThreads * 16));
    }
    copies_end();  // also where there is nothing, so that they can be counted
  }

  /// The thread's part of the bases of `count` steps: one group of columns, one sample. Its warp needs no others.
  template <int kCount>
  __device__ void make_bases(int step) {
    if (step >= steps) return;
    const int sample = thread_ % kStep;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const longlong2 far = phases(step + i).far[sample];
      const std::int64_t phase = far.x * y_ + far.y * z_;
      memory_.bases[(step + i) % (2 * kRound)][thread_ / kStep][sample] =
          product(stage(step + i).data[(step + i) % kRound].d[sample], kExact ? wave(phase) : quick_wave(phase));
    }
  }

  __device__ void make_left(Left<kExact>& left, int step) const {
#pragma unroll
    for (int unit = 0; unit < 4; ++unit) make_left(left, step, unit / 2, unit % 2);
  }
  /// One half of a step's left factor for one m-tile.
  __device__ void make_left(Left<kExact>& left, int step, int tile, int half) const {
    const int lane = thread_ % 32;
    const float4 near = *reinterpret_cast<const float4*>(&phases(step).near[half][lane / 4][lane % 4 * 2]);
    const float4 base = *reinterpret_cast<const float4*>(
        &memory_.bases[step % (2 * kRound)][thread_ / 32 * 2 + tile][half * 8 + lane % 4 * 2]);
    const float2 a = product(make_float2(near.x, near.y), make_float2(base.x, base.y)),
                 b = product(make_float2(near.z, near.w), make_float2(base.z, base.w));
    if constexpr (kExact) {
      split(a.x, b.x, left.high[tile][2 * half], left.low[tile][2 * half]);
      split(a.y, b.y, left.high[tile][2 * half + 1], left.low[tile][2 * half + 1]);
    } else {
      const half2 re = __floats2half2_rn(a.x, b.x), im = __floats2half2_rn(a.y, b.y);
      left.high[tile][2 * half] = reinterpret_cast<const std::uint32_t&>(re);
      left.high[tile][2 * half + 1] = reinterpret_cast<const std::uint32_t&>(im);
    }
  }

  __device__ float scale_of_group(int step) const { return scales_[step / kStepsOfGroup]; }
  /// Adds a group's sums of one m-tile to the rest.
  __device__ void add(const float (&sum)[kTiles][4], int tile, float scale) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      float4 total = sums_[(tile * kTiles + i) * 32];
      total.x = fmaf(sum[i][0], scale, total.x);
      total.y = fmaf(sum[i][1], scale, total.y);
      total.z = fmaf(sum[i][2], scale, total.z);
      total.w = fmaf(sum[i][3], scale, total.w);
      sums_[(tile * kTiles + i) * 32] = total;
    }
  }

  /// The right factor of a step: its address in shared memory.
  __device__ std::uint32_t right(int step) const { return shared_address(stage(step).right[step % kRound]); }

 private:
  __device__ const Stage& stage(int step) const { return memory_.stages[step / kRound % kStages]; }
  __device__ const StepPhases& phases(int step) const { return stage(step).phases[step % kRound]; }
  /// Threads from the one whose turn it is after `before` bytes.
  template <class T>
  __device__ void copy(T& to, const void* from, int before) const {
    constexpr int kBytes = sizeof(T);
    int i = thread_ * 16 - before;
    if (i < 0) i += kBlockThreads * 16;
#pragma unroll
    for (; i < kBytes; i += kBlockThreads * 16)
      copy_16(reinterpret_cast<unsigned char*>(&to) + i, static_cast<const unsigned char*>(from) + i);
  }

  Memory& memory_;

 public:
  const int steps;

 private:
  int thread_;
  const unsigned char* right_;
  const StepPhases* phases_;
  const StepData* data_;
  const float* scales_;
  float4* all_sums_;
  float4* sums_;  // no other thread touches them
  std::int64_t y_ = 0, z_ = 0;
};

/// In direct_transform_hopper_cuda.cu: the product for devices of compute capability 9.0, by their own instructions.
bool hopper(Context& context);
void multiply_on_hopper(const DirectGrid& grid, const DirectTiles& tiles, const Work& work, cudaStream_t stream);

}  // namespace echotrain::numerics::cuda
