// One warp per piece of a tile's list and group of coils. Samples are copied to shared memory in batches and their
// kernel weights computed there, once for all coils, while the next batch is on its way: a window of a dozen
// multiplications costs less than a look-up in memory. A tile's sum is a matrix product on the tensor cores. Sums are
// in list order: the same bits in every run. Source: Gregerson 2008, section 4.1 (output-driven, sector-based).
#include <algorithm>
#include <cstdint>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/nufft/nufft_plan.h"
#include "gadgets/numerics/nufft/nufft_product_cuda.cuh"
#include "gadgets/numerics/nufft/nufft_staging_cuda.cuh"
#include "gadgets/numerics/nufft/nufft_tiles_cuda.cuh"
#include "gadgets/numerics/nufft/nufft_window_cuda.cuh"

namespace echotrain::numerics::cuda {
namespace {

/// Warps of a block. In 1D a tile has a weight for every point, so a warp needs more shared memory.
constexpr int warps_of_block(int dims) { return dims == 1 ? 1 : 4; }
constexpr unsigned kMostGridY = 65535;
constexpr int kFewTerms = 12;  // of the window: up to width 7 at oversampling 1.5

/// Stores a piece's sums: in the grid, or among the partial sums of a split tile. first_coil: of those gridded now.
template <int Dims, int Columns>
__device__ __forceinline__ void store_sums(const Tiling& t, const PieceSamples& samples, std::int64_t first_coil,
                                           std::int64_t count, int lane, const LaneSums<Columns>& sum, float2* partial,
                                           float2* grid) {
  const int row = lane / 4, column = lane % 4;  // of the operation's fragments
  const Piece& piece = samples.piece;
  const std::int64_t grid_size = grid_points(t);
#pragma unroll
  for (int m = 0; m < kTilePoints / 16; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int point = 16 * m + row + 8 * half;
      std::int64_t offset;
      if (!find_point<Dims>(t, samples.place, point, offset)) continue;
#pragma unroll
      for (int c = 0; c < Columns; ++c) {
        const std::int64_t coil = first_coil + kCoilsPerMma * c + column;
        if (coil >= count) continue;
        const float2 v = make_float2(sum[m][c][2 * half], sum[m][c][2 * half + 1]);
        if (piece.slot < 0)
          grid[coil * grid_size + offset] = v;
        else
          partial[(piece.slot * count + coil) * kTilePoints + point] = v;
      }
    }
}

/// One warp per piece and group of coils. blockDim.x = 32 kWarps; gridDim = (ceil(pieces / kWarps), ceil(count /
/// (kCoilsPerMma * Columns))). `paired`: samples of two coils lie at multiples of 16 bytes.
template <int Dims, int Columns, int Terms>
__global__ __launch_bounds__(32 * warps_of_block(Dims)) void grid_kernel(PlanView plan, const float2* values,
                                                                         const float* density, std::int64_t all_coils,
                                                                         std::int64_t first_coil, std::int64_t count,
                                                                         bool paired, float2* partial, float2* grid) {
  using S = Staged<Dims, Columns>;
  constexpr int kWarps = warps_of_block(Dims);
  __shared__ __align__(16) typename S::Values values_of_warps[kWarps];
  __shared__ __align__(16) typename S::Weights weights_of_warps[kWarps];

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::int32_t number = static_cast<std::int32_t>(blockIdx.x) * kWarps + warp;
  if (number >= plan.piece_count) return;
  auto& value = values_of_warps[warp];
  auto& weight = weights_of_warps[warp];
  const std::int64_t block_first = static_cast<std::int64_t>(blockIdx.y) * S::kCoils;  // of the coils gridded now
  const Piece piece = plan.pieces[number];
  const PieceSamples samples{piece,
                             place_of(plan.tiling, piece.tile),
                             plan.list + piece.begin,
                             reinterpret_cast<const char*>(values + first_coil + block_first),
                             static_cast<std::uint32_t>(all_coils * sizeof(float2)),
                             static_cast<int>(min(static_cast<std::int64_t>(S::kCoils), count - block_first)),
                             paired};
  const int batches = (piece.count + kBatch - 1) / kBatch;

  std::int32_t next = listed_sample(samples, 0, lane);
  Placed<Dims> next_placed = place_sample<Dims>(plan, samples.place, density, next);
  if (batches > 0) start_copies<Dims, Columns>(samples, 0, next, lane, value);
  commit_copies();
  next = listed_sample(samples, 1, lane);

  LaneSums<Columns> sum = {};
  for (int b = 0; b < batches; ++b) {
    if (b + 1 < batches) start_copies<Dims, Columns>(samples, b + 1, next, lane, value);
    commit_copies();
    note_weights<Dims, Columns, Terms>(plan, next_placed, lane, weight);
    next_placed = place_sample<Dims>(plan, samples.place, density, next);
    next = listed_sample(samples, b + 2, lane);
    wait_for_copies_but_last();
    __syncwarp();
    // The windows that need most terms are those of sums_in_stretches().
    add_batch<Dims, Columns, (Terms > kFewTerms)>(value[b & 1], weight, min(kBatch, piece.count - b * kBatch), lane,
                                                  sum);
    __syncwarp();  // the batch is used up
  }
  store_sums<Dims, Columns>(plan.tiling, samples, block_first, count, lane, sum, partial, grid);
}

/// Adds the partial sums of a split tile in order. blockDim = kTilePoints; gridDim.x = split tiles.
template <int Dims>
__global__ void add_partial_kernel(Tiling t, const SplitTile* split_tiles, std::int64_t count, const float2* partial,
                                   float2* grid) {
  const SplitTile split = split_tiles[blockIdx.x];
  const int point = threadIdx.x;
  std::int64_t offset;
  if (!find_point<Dims>(t, place_of(t, split.tile), point, offset)) return;
  const std::int64_t grid_size = grid_points(t);
  for (std::int64_t c = blockIdx.y; c < count; c += gridDim.y) {
    double re = 0, im = 0;  // there may be thousands
    for (std::int64_t slot = split.first; slot < split.first + split.count; ++slot) {
      const float2 v = partial[(slot * count + c) * kTilePoints + point];
      re += static_cast<double>(v.x);
      im += static_cast<double>(v.y);
    }
    grid[c * grid_size + offset] = make_float2(static_cast<float>(re), static_cast<float>(im));
  }
}

template <int Dims, int Columns, int Terms>
void launch_grid(Context& context, const NufftPlan::Impl& plan, const GridArguments& arguments) {
  const cudaStream_t stream = stream_of(context);
  PlanView view{plan.tiling,
                {},
                plan.footprints.data(),
                plan.list.data(),
                plan.pieces.data(),
                static_cast<std::int32_t>(plan.pieces.size())};
  std::copy_n(plan.windows, 3, view.windows.axis);
  constexpr std::int64_t kPerBlock = kCoilsPerMma * Columns, kWarps = warps_of_block(Dims);
  const std::int64_t blocks_y = (arguments.count + kPerBlock - 1) / kPerBlock;
  if (blocks_y > kMostGridY) throw std::invalid_argument("nufft: too many coils");
  const dim3 blocks(static_cast<unsigned>((plan.pieces.size() + kWarps - 1) / kWarps), static_cast<unsigned>(blocks_y));
  const float2* samples = device_view(arguments.samples);
  const bool paired =
      reinterpret_cast<std::uintptr_t>(samples) % 16 == 0 && arguments.coils % 2 == 0 && arguments.first % 2 == 0;
  grid_kernel<Dims, Columns, Terms><<<blocks, 32 * kWarps, 0, stream>>>(
      view, device_view(arguments.samples), arguments.weights, arguments.coils, arguments.first, arguments.count,
      paired, device_view(arguments.partial), device_view(arguments.grid));
  check_launch("grid");
  if (plan.split_tiles.size() == 0) return;
  const dim3 split_blocks(static_cast<unsigned>(plan.split_tiles.size()),
                          static_cast<unsigned>(std::min<std::int64_t>(arguments.count, kMostGridY)));
  add_partial_kernel<Dims><<<split_blocks, kTilePoints, 0, stream>>>(plan.tiling, plan.split_tiles.data(),
                                                                     arguments.count, device_view(arguments.partial),
                                                                     device_view(arguments.grid));
  check_launch("add_partial");
}

template <int Dims, int Columns>
void launch_terms(Context& context, const NufftPlan::Impl& plan, const GridArguments& arguments) {
  if (are_short(plan.windows, kFewTerms) && !sums_in_stretches(plan.options))
    launch_grid<Dims, Columns, kFewTerms>(context, plan, arguments);
  else
    launch_grid<Dims, Columns, WindowPolynomial::kMostTerms>(context, plan, arguments);
}

template <int Dims>
void launch_coils(Context& context, const NufftPlan::Impl& plan, const GridArguments& arguments) {
  // In 1D, which no pipeline uses, one kernel serves any number of coils and any window.
  if constexpr (Dims == 1)
    launch_grid<Dims, 4, WindowPolynomial::kMostTerms>(context, plan, arguments);
  else if (arguments.count > 2 * kCoilsPerMma)
    launch_terms<Dims, 4>(context, plan, arguments);
  else if (arguments.count > kCoilsPerMma)
    launch_terms<Dims, 2>(context, plan, arguments);
  else
    launch_terms<Dims, 1>(context, plan, arguments);
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
