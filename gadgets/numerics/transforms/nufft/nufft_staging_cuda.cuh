// The staging of samples for a warp that grids a piece of a tile's list: they are looked up well ahead, copied to
// shared memory in batches, and their kernel weights computed there, once for all coils.
#pragma once

#include <cstdint>
#include <type_traits>

#include "gadgets/numerics/transforms/nufft/nufft_tiles_cuda.cuh"

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
/// Starts copying 16 bytes, or writing zeros. It takes fewer instructions than with a number of bytes.
__device__ __forceinline__ void copy_or_clear(void* to, const void* from, bool clear) {
  const auto target = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, p; }" ::"r"(target),
               "l"(from), "r"(static_cast<int>(clear))
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for all copies but those of the last group.
__device__ inline void wait_for_copies_but_last() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

/// The place of number `i` of a sample's values.
__device__ __forceinline__ int swizzled(int i, int sample) { return i ^ (sample & 8); }

/// The layout of a warp's shared memory.
template <int Dims, int Columns>
struct Staged {
  using T = TileShape<Dims>;
  static constexpr int kCoils = kCoilsPerMma * Columns;
  // Weights of a sample are spread over the points of the tile's axes: x, then y, then z.
  static constexpr int kY = T::kX, kZ = kY + (Dims > 1 ? T::kY : 0), kSpread = kZ + (Dims > 2 ? T::kZ : 0);
  // These strides, and swizzled(), put the simultaneous reads of a warp into different banks.
  static constexpr int kValueStride = Columns == 4 ? 36 : 20, kWeightStride = kBatch + 16;
  using Values = float[2][kBatch][kValueStride];  ///< values of two batches
  using Weights = float[kSpread][kWeightStride];
};

/// The place of a sample in a tile, and its density.
template <int Dims>
struct Placed {
  int start[Dims];  // slowest axis first
  float shift[Dims], density;
};

/// The samples of a piece, and the coils that a warp grids of them.
struct PieceSamples {
  Piece piece;
  TilePlace place;
  const std::int32_t* list;    ///< the piece's own part of the list
  const char* first_value;     ///< value of sample 0 and the first of the coils
  std::uint32_t value_stride;  ///< bytes from sample to sample
  int coils;                   ///< coils gridded now
  bool paired;                 ///< values of two coils lie at multiples of 16 bytes
  bool whole;                  ///< `paired`, and all of the warp's coils exist
};

/// The lane's sample of batch b of a piece's list, or -1. Call it well ahead, as each step of the look-up waits for the
/// previous one.
__device__ __forceinline__ std::int32_t listed_sample(const std::int32_t* list, int count, int b, int lane) {
  const int i = b * kBatch + lane;
  return i < count ? list[i] : -1;
}

template <int Dims>
__device__ __forceinline__ Placed<Dims> place_sample(const PlanView& plan, const TilePlace& place, const float* density,
                                                     std::int32_t sample) {
  constexpr int kOutside = 1 << 20;  // a footprint's start that reaches no point
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
    p.start[a] = begin;
    p.shift[a] = shift[a];
  }
  return p;
}

/// Calls note(q, weight) for all of a tile's points along one axis, q = first_row + 0, 1, ...: the window's weights of
/// a sample whose footprint starts at point `start`, and 0 where it has no point.
template <int Points, int Terms, class Note>
__device__ __forceinline__ void weights_of_axis(const WindowPolynomial& window, int width, int start, float shift,
                                                float factor, const Note& note) {
  const auto w = static_cast<float>(width);
  const float step = 2.8284271f / w, first = (shift - 0.5f * w - static_cast<float>(start)) * step;
  const std::uint64_t ones = (1u << width) - 1;
  using Mask = std::conditional_t<(Points > 32), std::uint64_t, std::uint32_t>;
  Mask points;
  if constexpr (Points <= 8)  // without branches: at 16 and at -8 no point is left
    points = static_cast<Mask>(ones) << (max(min(start, 16), -8) + 8) >> 8;
  else
    points = static_cast<Mask>(start >= Points ? 0 : start >= 0 ? ones << start : ones >> min(-start, 31));
#pragma unroll Points> 8 ? 8 : Points
  for (int point = 0; point < Points; ++point) {
    const float v = static_cast<float>(point) * step + first, value = factor * window_of<Terms>(window, 1 - v * v);
    note(point, (points >> point & 1) != 0 ? value : 0.0f);
  }
}

/// Notes the lane's sample's weights along each axis, from `Terms` coefficients of the windows.
template <int Dims, int Terms, class Weights>
__device__ __forceinline__ void note_weights(const PlanView& plan, const Placed<Dims>& p, int lane, Weights& weight) {
  using T = TileShape<Dims>;
  const int width = plan.tiling.width;
  weights_of_axis<T::kX, Terms>(plan.windows.axis[2], width, p.start[Dims - 1], p.shift[Dims - 1], p.density,
                                [&](int x, float w) { weight[x][lane] = w; });
  if constexpr (Dims > 1)
    weights_of_axis<T::kY, Terms>(plan.windows.axis[1], width, p.start[Dims - 2], p.shift[Dims - 2], 1,
                                  [&](int y, float w) { weight[T::kX + y][lane] = w; });
  if constexpr (Dims > 2)
    weights_of_axis<T::kZ, Terms>(plan.windows.axis[0], width, p.start[0], p.shift[0], 1,
                                  [&](int z, float w) { weight[T::kX + T::kY + z][lane] = w; });
}

/// Starts copying batch b. `mine`: the lane's sample of that batch. Neighbouring lanes copy neighbouring coils.
template <int Dims, int Columns>
__device__ __forceinline__ void start_copies(const PieceSamples& samples, int b, std::int32_t mine, int lane,
                                             typename Staged<Dims, Columns>::Values& value) {
  constexpr unsigned kWholeWarp = 0xffffffffu;
  constexpr int kPerSample = Staged<Dims, Columns>::kCoils / 2;  // copies of two coils
  const int c = 2 * (lane % kPerSample);
  if (samples.whole) {
    const char* const first = samples.first_value + 8 * c;
#pragma unroll
    for (int i = 0; i < kPerSample; ++i) {
      const int s = (i * 32 + lane) / kPerSample;
      const std::int32_t sample = __shfl_sync(kWholeWarp, mine, s);
      copy_or_clear(
          &value[b & 1][s][swizzled(2 * c, s)],
          first + static_cast<std::uint64_t>(static_cast<std::uint32_t>(max(sample, 0))) * samples.value_stride,
          sample < 0);
    }
    return;
  }
  const int present = max(0, min(2, samples.coils - c));
  const char* const first_value = samples.first_value + (present > 0 ? 8 * c : 0);
#pragma unroll
  for (int i = 0; i < kPerSample; ++i) {
    const int s = (i * 32 + lane) / kPerSample;
    const std::int32_t sample = __shfl_sync(kWholeWarp, mine, s);
    const char* from =
        first_value + static_cast<std::uint64_t>(static_cast<std::uint32_t>(max(sample, 0))) * samples.value_stride;
    float* to = &value[b & 1][s][swizzled(2 * c, s)];
    if (samples.paired) {
      copy_async<16>(to, from, sample < 0 ? 0 : 8 * present);
    } else {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const bool there = sample >= 0 && k < present;
        copy_async<8>(to + 2 * k, there ? from + 8 * k : samples.first_value, there ? 8 : 0);
      }
    }
  }
}

}  // namespace echotrain::numerics::cuda
