#include <algorithm>

#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/unmixing/line_unmixing_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kColumns = 32, kWarps = 8, kLinesEach = 2, kLines = kWarps * kLinesEach;
constexpr int kChunk = 64;               // rows that a block holds at once
constexpr std::int64_t kMostRows = 256;  // more are transformed faster than summed

/// Rows of all coils with what weighs their images.
struct WeighedRows {
  const float2* rows;               // [coil, row, x]
  std::int64_t per_coil;            // rows
  std::int64_t first, step, count;  // number i is row first + i * step
  const std::int32_t* frequencies;  // of each; null: row - middle
  std::int64_t middle;
  const float2* weights;  // [coil, y, x]; their conjugates weigh
};

struct UnmixingOfLines {
  WeighedRows lattice, corrected;
  int coils;
  std::int64_t nx, ny, padded;
  float scale;
  float2* image;
};

/// What a block holds of rows: values [row, column], and turns [row, line].
struct UnmixingTile {
  float2 rows[kChunk][kColumns];
  float2 turns[kChunk][kLines];
};

/// sum += what these rows add to this thread's lines; all threads of a block call it.
__device__ void add_rows(const UnmixingOfLines& w, const WeighedRows& from, UnmixingTile& tile, float2* sum) {
  const int thread = static_cast<int>(threadIdx.y) * kColumns + static_cast<int>(threadIdx.x);
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kColumns;
  const std::int64_t line = static_cast<std::int64_t>(blockIdx.y) * kLines;
  const std::int64_t x = column + threadIdx.x, y = line + threadIdx.y * kLinesEach;
  for (std::int64_t begin = 0; begin < from.count; begin += kChunk) {
    const int rows = static_cast<int>(min(static_cast<long long>(kChunk), static_cast<long long>(from.count - begin)));
    __syncthreads();
    for (int t = thread; t < rows * kLines; t += kColumns * kWarps) {
      const std::int64_t i = begin + t / kLines, r = line + t % kLines - w.ny / 2;
      const std::int64_t k =
          from.frequencies != nullptr ? from.frequencies[i] : from.first + i * from.step - from.middle;
      float sine, cosine;
      sincospif(2 * static_cast<float>(k * r % w.padded) / static_cast<float>(w.padded), &sine, &cosine);
      tile.turns[t / kLines][t % kLines] = make_float2(cosine, sine);
    }
    for (int coil = 0; coil < w.coils; ++coil) {
      __syncthreads();
      for (int t = thread; t < rows * kColumns; t += kColumns * kWarps) {
        const std::int64_t row = from.first + (begin + t / kColumns) * from.step, at = column + t % kColumns;
        tile.rows[t / kColumns][t % kColumns] =
            at < w.nx ? from.rows[(coil * from.per_coil + row) * w.nx + at] : make_float2(0.0f, 0.0f);
      }
      __syncthreads();
      float2 values[kLinesEach];
      for (int l = 0; l < kLinesEach; ++l) values[l] = make_float2(0.0f, 0.0f);
      for (int i = 0; i < rows; ++i) {
        const float2 value = tile.rows[i][threadIdx.x];
        for (int l = 0; l < kLinesEach; ++l)
          values[l] = values[l] + tile.turns[i][threadIdx.y * kLinesEach + l] * value;
      }
      for (int l = 0; l < kLinesEach; ++l)
        if (x < w.nx && y + l < w.ny)
          sum[l] = sum[l] + conjugate(from.weights[(coil * w.ny + y + l) * w.nx + x]) * values[l];
    }
  }
}

/// Blocks of kColumns x kLines voxels; a warp has kColumns neighbouring columns of kLinesEach lines.
__global__ void unmix_lines_kernel(UnmixingOfLines w) {
  __shared__ UnmixingTile tile;
  float2 sum[kLinesEach];
  for (int l = 0; l < kLinesEach; ++l) sum[l] = make_float2(0.0f, 0.0f);
  add_rows(w, w.lattice, tile, sum);
  add_rows(w, w.corrected, tile, sum);
  const std::int64_t x = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const std::int64_t y = static_cast<std::int64_t>(blockIdx.y) * kLines + threadIdx.y * kLinesEach;
  for (int l = 0; l < kLinesEach; ++l)
    if (x < w.nx && y + l < w.ny) w.image[(y + l) * w.nx + x] = w.scale * sum[l];
}

}  // namespace

bool unmixing_pays(const LineUnmixing& plan) {
  constexpr std::int64_t kMostBlocks = 65535;  // along y
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
  Array<cfloat> e = context.allocate<cfloat>({plan.coils, corrected, image[2]});
  if (corrected > 0) numerics::correct_lines(context, work.hybrid, work.corrections, work.half, e.view());
  const float2* factors = device_view(plan.factors.data());
  const UnmixingOfLines w{
      .lattice = {device_view(work.half.data()), plan.geometry.encoded[1], plan.first, plan.step, plan.count, nullptr,
                  middle, factors},
      .corrected = {device_view(e.cview().data()), corrected, 0, 1, corrected, plan.frequencies_there.data(), 0,
                    factors + (corrected > 0 ? plan.coils * image.size() : 0)},
      .coils = static_cast<int>(plan.coils),
      .nx = image[2],
      .ny = image[1],
      .padded = plan.geometry.padded[1],
      .scale = plan.scale,
      .image = device_view(work.image)};
  const dim3 blocks(static_cast<unsigned>((image[2] + kColumns - 1) / kColumns),
                    static_cast<unsigned>((image[1] + kLines - 1) / kLines));
  unmix_lines_kernel<<<blocks, dim3(kColumns, kWarps), 0, stream_of(context)>>>(w);
  check_launch("unmix_lines");
}

}  // namespace echotrain::numerics::cuda
