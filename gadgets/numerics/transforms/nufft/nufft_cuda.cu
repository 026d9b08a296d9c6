// Gridding on tensor cores: one warp per piece of a tile's list and group of coils. Samples are copied to shared memory
// in batches and their kernel weights computed there, once for all coils, while the next batch is copied: a window of a
// dozen multiplications costs less than a look-up in memory. A tile's sum is a matrix product on the tensor cores. Sums
// are in list order: the same bits in every run. Source: Gregerson 2008, section 4.1 (output-driven, sector-based).
#include <algorithm>
#include <cstdint>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/transforms/nufft/nufft_plan.h"
#include "gadgets/numerics/transforms/nufft/nufft_product_cuda.cuh"
#include "gadgets/numerics/transforms/nufft/nufft_staging_cuda.cuh"
#include "gadgets/numerics/transforms/nufft/nufft_tiles_cuda.cuh"
#include "gadgets/numerics/transforms/nufft/nufft_window_cuda.cuh"

namespace echotrain::numerics::cuda {
namespace {

/// The warps of a block. In 1D a tile has a weight for every point, so a warp needs more shared memory.
constexpr int warps_of_block(int dims) { return dims == 1 ? 1 : 4; }
constexpr unsigned kMostGridY = 65535;
constexpr int kTogether = 4;    // coils whose partial sums a thread adds
constexpr int kSplitTiles = 8;  // tiles of a block that adds partial sums
constexpr int kManySlots = 16;  // slots of a tile from which on all threads of that block add it
/// The blocks that a multiprocessor shall hold at once: as many as registers allow without spilling.
constexpr int blocks_at_once(int dims, int columns, Sums sums) {
  if (dims == 1 || sums == Sums::stretches) return 1;
  if (columns == 4) return sums == Sums::coarse ? 4 : 3;
  return sums == Sums::full ? 4 : 5;
}

/// Stores a piece's sums in the grid, or among the partial sums of a split tile. first_coil: the first of those gridded
/// now.
template <int Dims, int Columns>
__device__ __forceinline__ void store_sums(const Tiling& t, const PieceSamples& samples, std::int64_t first_coil,
                                           std::int64_t count, int lane, const LaneSums<Columns>& sum, float2* partial,
                                           float2* grid) {
  using T = TileShape<Dims>;
  static_assert(Dims != 2 || T::kX == 8);
  static_assert(Dims != 3 || (T::kX == 4 && T::kY == 4));
  const int row = lane / 4, first = Columns * (lane % 4);  // the lane's coils: `first` .. `first` + Columns - 1
  const bool split = samples.piece.slot >= 0;
  const std::int64_t stride = split ? kTilePoints : grid_points(t);  // from coil to coil
  std::int64_t offset = row, half_step = 8, step = 16;               // offsets of points 0, 8 and 16
  const bool cut = Dims == 1 || samples.place.extent[2] < T::kX || samples.place.extent[1] < T::kY ||
                   samples.place.extent[0] < T::kZ;
  if (!split && !cut) {
    find_point<Dims>(t, samples.place, row, offset);
    half_step = (Dims == 2 ? 1 : 2) * static_cast<std::int64_t>(t.grid[2]);
    step = Dims == 2 ? 2 * half_step : static_cast<std::int64_t>(t.grid[1]) * t.grid[2];
  }
  float2* const to = split ? partial + (samples.piece.slot * count + first_coil + first) * kTilePoints
                           : grid + (first_coil + first) * stride;
#pragma unroll
  for (int m = 0; m < kTilePoints / 16; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::int64_t here = offset + m * step + half * half_step;
      if (cut) {
        std::int64_t in_grid;
        if (!find_point<Dims>(t, samples.place, 16 * m + row + 8 * half, in_grid)) continue;
        if (!split) here = in_grid;
      }
      float2* at = to + here;
#pragma unroll
      for (int c = 0; c < Columns; ++c, at += stride)
        if (first + c < samples.coils) *at = sum_of<Columns>(sum[m], half, c);
    }
}

/// One warp per piece and group of coils. blockDim.x = 32 kWarps; gridDim = (ceil(pieces / kWarps), ceil(count /
/// (kCoilsPerMma * Columns))). `paired`: samples of two coils lie at multiples of 16 bytes.
template <int Dims, int Columns, Sums Exactness>
__global__ __launch_bounds__(32 * warps_of_block(Dims), blocks_at_once(Dims, Columns, Exactness)) void grid_kernel(
    PlanView plan, const float2* values, const float* density, std::int64_t all_coils, std::int64_t first_coil,
    std::int64_t count, bool paired, float2* partial, float2* grid) {
  using S = Staged<Dims, Columns>;
  constexpr int kWarps = warps_of_block(Dims);
  __shared__ __align__(16) typename S::Values values_of_warps[kWarps];
  __shared__ __align__(16) typename S::Weights weights_of_warps[kWarps];

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::int32_t number = static_cast<std::int32_t>(blockIdx.x) * kWarps + warp;
  if (number >= plan.piece_count) return;
  auto& value = values_of_warps[warp];
  auto& weight = weights_of_warps[warp];
  const std::int64_t block_first = static_cast<std::int64_t>(blockIdx.y) * S::kCoils;  // first coil of those gridded
                                                                                       // now
  const Piece piece = plan.pieces[number];
  const PieceSamples samples{piece,
                             place_of(plan.tiling, piece.tile),
                             plan.list + piece.begin,
                             reinterpret_cast<const char*>(values + first_coil + block_first),
                             static_cast<std::uint32_t>(all_coils * sizeof(float2)),
                             static_cast<int>(min(static_cast<std::int64_t>(S::kCoils), count - block_first)),
                             paired,
                             paired && count - block_first >= S::kCoils};
  const int batches = (piece.count + kBatch - 1) / kBatch;

  std::int32_t next = listed_sample(samples.list, piece.count, 0, lane);
  Placed<Dims> next_placed = place_sample<Dims>(plan, samples.place, density, next);
  if (batches > 0) start_copies<Dims, Columns>(samples, 0, next, lane, value);
  commit_copies();
  next = listed_sample(samples.list, piece.count, 1, lane);

  LaneSums<Columns> sum = {};
  for (int b = 0; b < batches; ++b) {
    if (b + 1 < batches) start_copies<Dims, Columns>(samples, b + 1, next, lane, value);
    commit_copies();
    if constexpr (Exactness == Sums::coarse) next_placed.density *= kBeforeCut;
    note_weights<Dims, window_terms(Exactness)>(plan, next_placed, lane, weight);
    next_placed = place_sample<Dims>(plan, samples.place, density, next);
    next = listed_sample(samples.list, piece.count, b + 2, lane);
    wait_for_copies_but_last();
    __syncwarp();
    for (int first = 0; first < min(kBatch, piece.count - b * kBatch); first += kDepth)
      add_samples<Dims, Columns, Exactness>(value[b & 1], weight, first, lane, sum);
    __syncwarp();  // the batch is used up
  }
  store_sums<Dims, Columns>(plan.tiling, samples, block_first, count, lane, sum, partial, grid);
}

/// Adds to `sum` the partial sums of every `step`-th slot from `first` on, for a point and `coils` coils from where
/// `from` lies in slot 0.
__device__ __forceinline__ void add_slots(const float2* from, std::int64_t slot_size, int first, int slots, int step,
                                          int coils, double2 (&sum)[kTogether]) {
#pragma unroll 4
  for (int slot = first; slot < slots; slot += step)
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const float2 v = from[slot * slot_size + min(i, coils - 1) * kTilePoints];
      sum[i].x += static_cast<double>(v.x);
      sum[i].y += static_cast<double>(v.y);
    }
}

/// Adds the partial sums of split tiles, in double, as a tile may have thousands, and in a fixed order: one after the
/// other, or, where there are many, those of each row of threads and then the rows. blockDim = (kTilePoints,
/// kSplitTiles); gridDim = (ceil(split tiles / kSplitTiles), at most ceil(count / kTogether)).
template <int Dims>
__global__ __launch_bounds__(kTilePoints* kSplitTiles) void add_partial_kernel(Tiling t, const SplitTile* split_tiles,
                                                                               int tiles, std::int64_t count,
                                                                               const float2* partial, float2* grid) {
  __shared__ double2 rows[kSplitTiles][kTilePoints];
  const int point = threadIdx.x, row = threadIdx.y, first_tile = static_cast<int>(blockIdx.x) * kSplitTiles;
  const std::int64_t grid_size = grid_points(t), slot_size = count * kTilePoints;
  for (std::int64_t c = static_cast<std::int64_t>(blockIdx.y) * kTogether; c < count;
       c += static_cast<std::int64_t>(gridDim.y) * kTogether) {
    const int coils = static_cast<int>(min(static_cast<std::int64_t>(kTogether), count - c));
    for (int k = 0; k < min(kSplitTiles, tiles - first_tile); ++k) {
      const SplitTile split = split_tiles[first_tile + k];
      const bool many = split.count > kManySlots;
      if (!many && row != k) continue;
      const float2* from = partial + split.first * slot_size + c * kTilePoints + point;
      std::int64_t offset = 0;
      const bool there = find_point<Dims>(t, place_of(t, split.tile), point, offset);
      double2 sum[kTogether] = {};
      // Points beyond the grid have no sums.
      const int slots = there ? split.count : 0;
      add_slots(from, slot_size, many ? row : 0, slots, many ? kSplitTiles : 1, coils, sum);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (many) {
          rows[row][point] = sum[i];
          __syncthreads();
          for (int other = 1; row == 0 && other < kSplitTiles; ++other) {
            sum[i].x += rows[other][point].x;
            sum[i].y += rows[other][point].y;
          }
          __syncthreads();
        }
        if (there && i < coils && (!many || row == 0))
          grid[(c + i) * grid_size + offset] = make_float2(static_cast<float>(sum[i].x), static_cast<float>(sum[i].y));
      }
    }
  }
}

template <int Dims, int Columns, Sums Exactness>
void launch_grid(Context& context, const PlanView& plan, const GridArguments& arguments) {
  constexpr std::int64_t kPerBlock = kCoilsPerMma * Columns, kWarps = warps_of_block(Dims);
  const std::int64_t blocks_y = (arguments.count + kPerBlock - 1) / kPerBlock;
  if (blocks_y > kMostGridY) throw std::invalid_argument("nufft: too many coils");
  const dim3 blocks(static_cast<unsigned>((plan.piece_count + kWarps - 1) / kWarps), static_cast<unsigned>(blocks_y));
  const float2* samples = device_view(arguments.samples);
  const bool paired =
      reinterpret_cast<std::uintptr_t>(samples) % 16 == 0 && arguments.coils % 2 == 0 && arguments.first % 2 == 0;
  grid_kernel<Dims, Columns, Exactness><<<blocks, 32 * kWarps, 0, stream_of(context)>>>(
      plan, device_view(arguments.samples), arguments.weights, arguments.coils, arguments.first, arguments.count,
      paired, device_view(arguments.partial), device_view(arguments.grid));
  check_launch("grid");
}

template <int Dims, int Columns>
void launch_sums(Context& context, const PlanView& plan, Sums sums, const GridArguments& arguments) {
  switch (sums) {
    case Sums::coarse:
      return launch_grid<Dims, Columns, Sums::coarse>(context, plan, arguments);
    case Sums::fine:
      return launch_grid<Dims, Columns, Sums::fine>(context, plan, arguments);
    case Sums::full:
      return launch_grid<Dims, Columns, Sums::full>(context, plan, arguments);
    case Sums::stretches:
      return launch_grid<Dims, Columns, Sums::stretches>(context, plan, arguments);
  }
}

// Gridding of one coil in 3D: the columns of a tensor core operation, elsewhere coils, are the tile's four planes, real
// and imaginary. Its factors are the weights within a plane, and the values times the weight of their plane. That takes
// a quarter of the operations, and less than half of the weights.
using Shape3 = TileShape<3>;
constexpr int kSingleWarps = 4;  // warps of a block, one per piece
constexpr int kStride = 48;      // floats of a row of a batch: simultaneous reads of a warp hit different banks
constexpr int kPlane = Shape3::kX * Shape3::kY;
static_assert(kPlane == 16 && Shape3::kZ == 4 && kBatch <= kStride);
constexpr int kRealRow = Shape3::kX + Shape3::kY + Shape3::kZ;  // the values' rows follow those of the weights

using SingleStaging = float[kRealRow + 2][kStride];

__device__ __forceinline__ float4 four_of(const float (&row)[kStride], int sample) {
  return *reinterpret_cast<const float4*>(&row[sample]);
}

/// Adds kDepth samples from `first` on.
template <Sums Exactness>
__device__ __forceinline__ void add_single_samples(const SingleStaging& staged, int first, int lane,
                                                   float (&sum)[1][4]) {
  const int row = lane / 4, sample = first + 4 * (lane % 4);
  const float4 of_plane = multiplied(four_of(staged[Shape3::kX + Shape3::kY + row / 2], sample),
                                     four_of(staged[kRealRow + row % 2], sample));
  Right<Exactness> right[1];
  right[0].set(of_plane.x, of_plane.y, of_plane.z, of_plane.w);
  const float4 x = four_of(staged[row % Shape3::kX], sample);
  const int y = Shape3::kX + row / Shape3::kX;
  add_products<Exactness>(multiplied(x, four_of(staged[y], sample)), multiplied(x, four_of(staged[y + 2], sample)),
                          right, sum);
}

/// blockDim.x = 32 kSingleWarps; gridDim.x = ceil(pieces / kSingleWarps). `stride`: floats from sample to sample.
template <Sums Exactness>
__global__ __launch_bounds__(32 * kSingleWarps, 8) void grid_single_kernel(PlanView plan, const float2* values,
                                                                           const float* density, std::int64_t stride,
                                                                           float2* partial, float2* grid) {
  __shared__ __align__(16) SingleStaging staged_of_warps[kSingleWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::int32_t number = static_cast<std::int32_t>(blockIdx.x) * kSingleWarps + warp;
  if (number >= plan.piece_count) return;
  SingleStaging& staged = staged_of_warps[warp];
  const Piece piece = plan.pieces[number];
  const TilePlace place = place_of(plan.tiling, piece.tile);
  const std::int32_t* const list = plan.list + piece.begin;
  const auto value_of = [&](std::int32_t sample) { return sample < 0 ? make_float2(0, 0) : values[sample * stride]; };

  std::int32_t next = listed_sample(list, piece.count, 0, lane);
  float2 next_value = value_of(next);
  Placed<3> next_placed = place_sample<3>(plan, place, density, next);
  next = listed_sample(list, piece.count, 1, lane);
  float sum[1][4] = {};
  for (int done = 0, b = 0; done < piece.count; done += kBatch, ++b) {
    Placed<3> placed = next_placed;
    staged[kRealRow][lane] = next_value.x;
    staged[kRealRow + 1][lane] = next_value.y;
    next_value = value_of(next);
    next_placed = place_sample<3>(plan, place, density, next);
    next = listed_sample(list, piece.count, b + 2, lane);
    if constexpr (Exactness == Sums::coarse) placed.density *= kBeforeCut;
    note_weights<3, window_terms(Exactness)>(plan, placed, lane, staged);
    __syncwarp();
    for (int first = 0; first < min(kBatch, piece.count - done); first += kDepth)
      add_single_samples<Exactness>(staged, first, lane, sum);
    __syncwarp();  // the batch is used up
  }
  const int row = lane / 4, z = lane % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int point = kPlane * z + row + 8 * half;
    std::int64_t offset;
    if (!find_point<3>(plan.tiling, place, point, offset)) continue;
    const float2 v = make_float2(sum[0][2 * half], sum[0][2 * half + 1]);
    if (piece.slot < 0)
      grid[offset] = v;
    else
      partial[static_cast<std::int64_t>(piece.slot) * kTilePoints + point] = v;
  }
}

template <Sums Exactness>
void launch_single(Context& context, const PlanView& plan, const GridArguments& arguments) {
  const unsigned blocks = (static_cast<unsigned>(plan.piece_count) + kSingleWarps - 1) / kSingleWarps;
  grid_single_kernel<Exactness><<<blocks, 32 * kSingleWarps, 0, stream_of(context)>>>(
      plan, device_view(arguments.samples) + arguments.first, arguments.weights, arguments.coils,
      device_view(arguments.partial), device_view(arguments.grid));
  check_launch("grid_single");
}

void grid_single(Context& context, const PlanView& plan, Sums sums, const GridArguments& arguments) {
  switch (sums) {
    case Sums::coarse:
      return launch_single<Sums::coarse>(context, plan, arguments);
    case Sums::fine:
      return launch_single<Sums::fine>(context, plan, arguments);
    case Sums::full:
      return launch_single<Sums::full>(context, plan, arguments);
    case Sums::stretches:
      return launch_single<Sums::stretches>(context, plan, arguments);
  }
}

template <int Dims>
void launch_coils(Context& context, const NufftPlan::Impl& plan, const GridArguments& arguments) {
  PlanView view{plan.tiling,
                {},
                plan.footprints.data(),
                plan.list.data(),
                plan.pieces.data(),
                static_cast<std::int32_t>(plan.pieces.size())};
  std::copy_n(plan.windows, 3, view.windows.axis);
  // In 1D, which no pipeline uses, one kernel serves any number of coils and any window.
  if constexpr (Dims == 1)
    launch_grid<Dims, 4, Sums::stretches>(context, view, arguments);
  else if (arguments.count > 2 * kCoilsPerMma)
    launch_sums<Dims, 4>(context, view, plan.sums, arguments);
  else if (arguments.count > kCoilsPerMma)
    launch_sums<Dims, 2>(context, view, plan.sums, arguments);
  else if (Dims == 3 && arguments.count == 1)
    grid_single(context, view, plan.sums, arguments);
  else
    launch_sums<Dims, 1>(context, view, plan.sums, arguments);

  if (plan.split_tiles.size() == 0) return;
  const auto split_tiles = static_cast<int>(plan.split_tiles.size());
  const dim3 split_blocks(
      static_cast<unsigned>((split_tiles + kSplitTiles - 1) / kSplitTiles),
      static_cast<unsigned>(std::min<std::int64_t>((arguments.count + kTogether - 1) / kTogether, kMostGridY)));
  add_partial_kernel<Dims><<<split_blocks, dim3(kTilePoints, kSplitTiles), 0, stream_of(context)>>>(
      plan.tiling, plan.split_tiles.data(), split_tiles, arguments.count, device_view(arguments.partial),
      device_view(arguments.grid));
  check_launch("add_partial");
}

}  // namespace

void grid(Context& context, const NufftPlan::Impl& plan, const GridArguments& arguments) {
  if (plan.tiling.dims == 3)
    launch_coils<3>(context, plan, arguments);
  else if (plan.tiling.dims == 2)
    launch_coils<2>(context, plan, arguments);
  else
    launch_coils<1>(context, plan, arguments);
}

void release_after(Context& context, const NufftPlan::Impl& plan) {
  const cudaStream_t stream = stream_of(context);
  if (plan.stream == context.stream()) return;
  const Event used;
  check(cudaEventRecord(used.get(), stream), "recording an event");
  check(cudaStreamWaitEvent(static_cast<cudaStream_t>(plan.stream), used.get(), 0), "ordering two streams");
}

}  // namespace echotrain::numerics::cuda
