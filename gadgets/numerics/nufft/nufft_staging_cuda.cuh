// How a warp that grids a piece of a tile's list gets its samples: looked up well ahead, copied to shared memory in
// batches, and their kernel weights worked out there, once for all coils.
#pragma once

#include <cstdint>

#include "gadgets/numerics/nufft/nufft_tiles_cuda.cuh"

namespace echotrain::numerics::cuda {

constexpr int kBatch = 32;       // samples staged at a time, one a lane
constexpr int kCoilsPerMma = 4;  // a tensor core operation's 8 columns: real and imaginary parts

/// Starts copying kBytes from global to shared memory: `bytes` of them, and zeros for the rest.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* to, const void* from, int bytes) {
  const auto target = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(from), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(target), "l"(from), "n"(kBytes), "r"(bytes)
                 : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for all copies but those of the last group.
__device__ inline void wait_for_copies_but_last() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

/// How a warp's shared memory is laid out.
template <int Dims, int Columns>
struct Staged {
  using T = TileShape<Dims>;
  static constexpr int kCoils = kCoilsPerMma * Columns;
  // Weights of a sample are spread over the points of the tile's axes: x, then y, then z.
  static constexpr int kY = T::kX, kZ = kY + (Dims > 1 ? T::kY : 0), kSpread = kZ + (Dims > 2 ? T::kZ : 0);
  // These strides put what a warp reads at once into different banks.
  static constexpr int kValueStride = 2 * kCoils + 4, kWeightStride = kBatch + 8;
  using Values = float[2][kBatch][kValueStride];  ///< of two batches
  using Weights = float[kSpread][kWeightStride];
};

/// Where a sample lies in a tile, and its density.
template <int Dims>
struct Placed {
  float start[Dims];  // slowest axis first; a whole number
  float shift[Dims], density;
};

/// The samples of a piece, and the coils that a warp grids of them.
struct PieceSamples {
  Piece piece;
  TilePlace place;
  const std::int32_t* list;    ///< the piece's own
  const char* first_value;     ///< of sample 0 and the first of the coils
  std::uint32_t value_stride;  ///< bytes from sample to sample
  int coils;                   ///< gridded now
  bool paired;                 ///< values of two coils lie at multiples of 16 bytes
};

/// The lane's sample of batch b, or -1. Called well ahead, as each step of the look-up waits for the one before.
__device__ __forceinline__ std::int32_t listed_sample(const PieceSamples& samples, int b, int lane) {
  const int i = b * kBatch + lane;
  return i < samples.piece.count ? samples.list[i] : -1;
}

template <int Dims>
__device__ __forceinline__ Placed<Dims> place_sample(const PlanView& plan, const TilePlace& place, const float* density,
                                                     std::int32_t sample) {
  constexpr float kOutside = 1 << 20;  // a footprint's start that reaches no point
  Placed<Dims> p;
  p.density = 1;
#pragma unroll
  for (int a = 0; a < Dims; ++a) p.start[a] = kOutside, p.shift[a] = 0;
  if (sample < 0) return p;
  const int4* from = reinterpret_cast<const int4*>(plan.footprints + sample);
  const int4 first = from[0];
  const int2 second = *reinterpret_cast<const int2*>(from + 1);
  const std::int32_t start[3] = {first.x, first.y, first.z};
  const float shift[3] = {__int_as_float(first.w), __int_as_float(second.x), __int_as_float(second.y)};
  if (density != nullptr) p.density = density[sample];
#pragma unroll
  for (int a = 0; a < Dims; ++a) {
    const int axis = a + 3 - Dims;
    std::int32_t begin = start[a] - place.origin[axis];
    if (begin >= place.extent[axis]) begin -= plan.tiling.grid[axis];  // the footprint wraps around the grid's end
    p.start[a] = static_cast<float>(begin);
    p.shift[a] = shift[a];
  }
  return p;
}

/// Notes the lane's sample's weights along each axis.
template <int Dims, int Columns, int Terms>
__device__ __forceinline__ void note_weights(const PlanView& plan, const Placed<Dims>& p, int lane,
                                             typename Staged<Dims, Columns>::Weights& weight) {
  using T = TileShape<Dims>;
  using S = Staged<Dims, Columns>;
  const Tiling& t = plan.tiling;
  const auto width = static_cast<float>(t.width);
  const auto note = [&](int a, int point, int q, float factor) {
    const float j = static_cast<float>(point) - p.start[a];
    const float w = factor * window_at<Terms>(plan.windows.axis[a + 3 - Dims], t.width, j, p.shift[a]);
    weight[q][lane] = j >= 0 && j < width ? w : 0.0f;
  };
#pragma unroll 8
  for (int x = 0; x < T::kX; ++x) note(Dims - 1, x, x, p.density);
  if constexpr (Dims > 1)
#pragma unroll
    for (int y = 0; y < T::kY; ++y) note(Dims - 2, y, S::kY + y, 1.0f);
  if constexpr (Dims > 2)
#pragma unroll
    for (int z = 0; z < T::kZ; ++z) note(Dims - 3, z, S::kZ + z, 1.0f);
}

/// Starts copying batch b. `mine`: the lane's sample of it. Neighbouring lanes copy neighbouring coils.
template <int Dims, int Columns>
__device__ __forceinline__ void start_copies(const PieceSamples& samples, int b, std::int32_t mine, int lane,
                                             typename Staged<Dims, Columns>::Values& value) {
  constexpr unsigned kWholeWarp = 0xffffffffu;
  constexpr int kPerSample = Staged<Dims, Columns>::kCoils / 2;  // copies of two coils
#pragma unroll
  for (int i = 0; i < kPerSample; ++i) {
    const int s = (i * 32 + lane) / kPerSample, c = 2 * (lane % kPerSample);
    const std::int32_t sample = __shfl_sync(kWholeWarp, mine, s);
    const char* from = samples.first_value + 8 * c;
    if (sample >= 0) from += static_cast<std::uint64_t>(static_cast<std::uint32_t>(sample)) * samples.value_stride;
    float* to = &value[b & 1][s][2 * c];
    if (samples.paired) {
      const int bytes = sample < 0 ? 0 : 8 * max(0, min(2, samples.coils - c));
      copy_async<16>(to, bytes > 0 ? from : samples.first_value, bytes);
    } else {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int bytes = sample >= 0 && c + k < samples.coils ? 8 : 0;
        copy_async<8>(to + 2 * k, bytes > 0 ? from + 8 * k : samples.first_value, bytes);
      }
    }
  }
}

}  // namespace echotrain::numerics::cuda
