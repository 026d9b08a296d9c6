#include <algorithm>

#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/mri/parallel/line_unmixing_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kColumns = 32, kWarps = 8, kLinesEach = 2, kLines = kWarps * kLinesEach;
constexpr int kGroups = 4;               // groups of coils; each has kWarps warps
constexpr int kChunk = 32;               // rows that a block holds at once
constexpr int kLoads = kChunk / kWarps;  // loads of each thread
constexpr std::int64_t kMostRows = 256;  // more are transformed faster than summed

/// Rows of all coils, and the weights of their images.
struct WeighedRows {
  const float2* rows;               // [coil, row, x]
  std::int64_t per_coil;            // rows of a coil
  std::int64_t first, step, count;  // number i is row first + i * step
  const std::int32_t* frequencies;  // k of each; null: row - middle
  std::int64_t middle;
  const float2* weights;  // [coil, y, x]; their conjugates are the weights
};

struct UnmixingOfLines {
  WeighedRows lattice, corrected;
  int coils;
  std::int64_t nx, ny, padded;
  float scale;
  float2* image;
};

/// The shared memory of a block for rows: values of a coil for each group, and turns.
struct UnmixingTile {
  float2 rows[kGroups][kChunk][kColumns];
  float2 turns[kChunk][kLines];
};

/// Loads this thread's share of a coil's rows of a chunk: its column of every kWarps-th row.
__device__ void load_rows(const UnmixingOfLines& w, const WeighedRows& from, std::int64_t begin, std::int64_t coil,
                          std::int64_t x, float2* values) {
  for (int i = 0; i < kLoads; ++i) {
    const std::int64_t number = begin + i * kWarps + threadIdx.y;
    const bool inside = number < from.count && coil < w.coils && x < w.nx;
    values[i] = inside ? from.rows[(coil * from.per_coil + from.first + number * from.step) * w.nx + x]
                       : make_float2(0.0f, 0.0f);
  }
}

/// sum += the contribution of these rows of this group's coils to this thread's lines; all threads of a block call it.
__device__ void add_rows(const UnmixingOfLines& w, const WeighedRows& from, UnmixingTile& tile, float2* sum) {
  const int group = static_cast<int>(threadIdx.z);
  const int thread = (group * kWarps + static_cast<int>(threadIdx.y)) * kColumns + static_cast<int>(threadIdx.x);
  const std::int64_t line = static_cast<std::int64_t>(blockIdx.y) * kLines;
  const std::int64_t x = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const std::int64_t y = line + threadIdx.y * kLinesEach;
  for (std::int64_t begin = 0; begin < from.count; begin += kChunk) {
    __syncthreads();  // the previous turns are not needed any more
    for (int t = thread; t < kChunk * kLines; t += kColumns * kWarps * kGroups) {
      const std::int64_t i = begin + t / kLines, r = line + t % kLines - w.ny / 2;
      std::int64_t k = 0;
      if (i < from.count)
        k = from.frequencies != nullptr ? from.frequencies[i] : from.first + i * from.step - from.middle;
      float sine, cosine;
      sincospif(2 * static_cast<float>(k * r % w.padded) / static_cast<float>(w.padded), &sine, &cosine);
      tile.turns[t / kLines][t % kLines] = make_float2(cosine, sine);
    }
    float2 next[kLoads];
    load_rows(w, from, begin, group, x, next);
    for (std::int64_t first = 0; first < w.coils; first += kGroups) {
      const std::int64_t coil = first + group;
      __syncthreads();  // nor are the rows
      for (int i = 0; i < kLoads; ++i) tile.rows[group][i * kWarps + threadIdx.y][threadIdx.x] = next[i];
      __syncthreads();
      load_rows(w, from, begin, coil + kGroups, x, next);
      float2 values[kLinesEach], weights[kLinesEach];
      for (int l = 0; l < kLinesEach; ++l) {
        const bool inside = coil < w.coils && x < w.nx && y + l < w.ny;
        weights[l] = inside ? from.weights[(coil * w.ny + y + l) * w.nx + x] : make_float2(0.0f, 0.0f);
        values[l] = make_float2(0.0f, 0.0f);
      }
#pragma unroll 8
      for (int i = 0; i < kChunk; ++i) {
        const float2 value = tile.rows[group][i][threadIdx.x];
        for (int l = 0; l < kLinesEach; ++l)
          values[l] = values[l] + tile.turns[i][threadIdx.y * kLinesEach + l] * value;
      }
      for (int l = 0; l < kLinesEach; ++l) sum[l] = sum[l] + conjugate(weights[l]) * values[l];
    }
  }
}

/// Blocks of kColumns x kLines voxels; a warp has kColumns neighbouring columns of kLinesEach lines, of a group's
/// coils.
__global__ void __launch_bounds__(kColumns* kWarps* kGroups) unmix_lines_kernel(UnmixingOfLines w) {
  __shared__ UnmixingTile tile;
  float2 sum[kLinesEach];
  for (int l = 0; l < kLinesEach; ++l) sum[l] = make_float2(0.0f, 0.0f);
  add_rows(w, w.lattice, tile, sum);
  add_rows(w, w.corrected, tile, sum);
  static_assert(kLines <= kChunk);
  __syncthreads();
  for (int l = 0; l < kLinesEach; ++l) tile.rows[threadIdx.z][threadIdx.y * kLinesEach + l][threadIdx.x] = sum[l];
  __syncthreads();
  if (threadIdx.z > 0) return;
  const std::int64_t x = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const std::int64_t y = static_cast<std::int64_t>(blockIdx.y) * kLines + threadIdx.y * kLinesEach;
  for (int l = 0; l < kLinesEach; ++l) {
    for (int group = 1; group < kGroups; ++group)
      sum[l] = sum[l] + tile.rows[group][threadIdx.y * kLinesEach + l][threadIdx.x];
    if (x < w.nx && y + l < w.ny) w.image[(y + l) * w.nx + x] = w.scale * sum[l];
  }
}

}  // namespace

bool unmixing_pays(const LineUnmixing& plan) {
  constexpr std::int64_t kMostBlocks = 65535;  // blocks along y
  return plan.count + static_cast<std::int64_t>(plan.frequencies.size()) <= kMostRows &&
         plan.geometry.image[1] <= kMostBlocks * kLines;
}

void keep_weights(Context& context, const Array<cfloat>& factors, const LineCorrections& /*corrections*/,
                  double /*middle*/, float scale, LineUnmixing& plan) {
  plan.factors = factors;
  plan.scale = scale;
  HostArray<std::int32_t> frequencies =
      context.allocate_host<std::int32_t>({static_cast<std::int64_t>(plan.frequencies.size())});
  std::copy(plan.frequencies.begin(), plan.frequencies.end(), frequencies.data());
  plan.frequencies_there = context.place<std::int32_t>(frequencies);
}

void unmix_lines(Context& context, const LineUnmixingWork& work) {
  const LineUnmixing& plan = work.plan;
  const Shape& image = plan.geometry.image;
  const std::int64_t corrected = work.corrections.count(), middle = plan.geometry.encoded[1] / 2;
  Array<cfloat> e;
  if (corrected > 0) {
    e = context.allocate<cfloat>({plan.coils, corrected, image[2]});
    numerics::correct_lines(context, work.hybrid, work.corrections, work.half, e.view());
  }
  const float2* factors = device_view(plan.factors.data());
  const UnmixingOfLines w{
      .lattice = {device_view(work.half.data()), plan.geometry.encoded[1], plan.first, plan.step, plan.count, nullptr,
                  middle, factors},
      .corrected = {device_view(e.data()), corrected, 0, 1, corrected, plan.frequencies_there.data(), 0,
                    factors + (corrected > 0 ? plan.coils * image.size() : 0)},
      .coils = static_cast<int>(plan.coils),
      .nx = image[2],
      .ny = image[1],
      .padded = plan.geometry.padded[1],
      .scale = plan.scale,
      .image = device_view(work.image)};
  const dim3 blocks(static_cast<unsigned>((image[2] + kColumns - 1) / kColumns),
                    static_cast<unsigned>((image[1] + kLines - 1) / kLines));
  unmix_lines_kernel<<<blocks, dim3(kColumns, kWarps, kGroups), 0, stream_of(context)>>>(w);
  check_launch("unmix_lines");
}

}  // namespace echotrain::numerics::cuda
