// One block of threads per piece of a tile's list and group of coils. Samples are staged in shared memory in batches,
// with their kernel weights spread over the tile's points; each thread owns one grid point and some coils, and adds the
// samples in list order in registers. Source: Gregerson 2008, section 4.1 (output-driven, sector-based).
#include <algorithm>

#include "gadgets/numerics/cuda_support.cuh"
#include "gadgets/numerics/nufft_plan.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kBatch = 32;      // samples staged at a time
constexpr int kMostGroups = 4;  // groups of coils in a block
constexpr unsigned kMostGridY = 65535;

/// Points of a full tile along each axis, slowest first, by dimensions.
template <int Dims>
struct TileShape;
template <>
struct TileShape<1> {
  static constexpr int kX = 64, kY = 1, kZ = 1;
};
template <>
struct TileShape<2> {
  static constexpr int kX = 8, kY = 8, kZ = 1;
};
template <>
struct TileShape<3> {
  static constexpr int kX = 4, kY = 4, kZ = 4;
};

struct PlanView {
  Tiling tiling;
  const std::int32_t* starts;
  const float* weights;
  const std::int32_t* list;
  const Piece* pieces;
};

struct TilePlace {
  std::int32_t origin[3], extent[3];
};

__device__ TilePlace place_of(const Tiling& t, std::int32_t tile) {
  const std::int32_t at[3] = {tile / t.tiles[2] / t.tiles[1], tile / t.tiles[2] % t.tiles[1], tile % t.tiles[2]};
  TilePlace place;
  for (int a = 0; a < 3; ++a) {
    place.origin[a] = at[a] * t.tile[a];
    place.extent[a] = min(t.tile[a], t.grid[a] - place.origin[a]);
  }
  return place;
}

/// blockDim = (kTilePoints, groups); gridDim = (pieces, ceil(count / (groups * Coils))).
template <int Dims, int Coils>
__global__ void grid_kernel(PlanView plan, const float2* samples, const float* density, std::int64_t all_coils,
                            std::int64_t first_coil, std::int64_t count, float2* partial, float2* grid) {
  using T = TileShape<Dims>;
  constexpr int kSpread = T::kX + (Dims > 1 ? T::kY : 0) + (Dims > 2 ? T::kZ : 0);  // weights of a sample, all axes
  __shared__ float weight[kBatch][kSpread];
  __shared__ __align__(16) float2 value[kBatch][kMostGroups * Coils];

  const Tiling& t = plan.tiling;
  const Piece piece = plan.pieces[blockIdx.x];
  const TilePlace place = place_of(t, piece.tile);
  const int point = threadIdx.x, group = threadIdx.y, groups = blockDim.y;
  const int px = point % T::kX, py = point / T::kX % T::kY, pz = point / (T::kX * T::kY);
  const int thread = group * kTilePoints + point, threads = groups * kTilePoints;
  const int block_coils = groups * Coils;
  const std::int64_t block_first = static_cast<std::int64_t>(blockIdx.y) * block_coils;  // of the coils gridded now

  float2 sum[Coils];
  for (int c = 0; c < Coils; ++c) sum[c] = make_float2(0.0f, 0.0f);

  for (int base = 0; base < piece.count; base += kBatch) {
    const int n = min(kBatch, piece.count - base);
    const std::int32_t* list = plan.list + piece.begin + base;
    __syncthreads();  // the batch before this one is used up
    for (int i = thread; i < n * kSpread; i += threads) {
      const int s = i / kSpread, q = i % kSpread;
      // Order: x, y, z; axes counted as 2, 1, 0.
      const int axis = q < T::kX ? 2 : q < T::kX + T::kY ? 1 : 0;
      const int at = axis == 2 ? q : axis == 1 ? q - T::kX : q - T::kX - T::kY;
      const std::int64_t record = static_cast<std::int64_t>(list[s]) * Dims + (axis - (3 - Dims));
      std::int32_t start = plan.starts[record] - place.origin[axis];
      if (start >= place.extent[axis]) start -= t.grid[axis];  // it reaches this tile around the grid's end
      const int j = at - start;
      const bool inside = j >= 0 && j < t.width && at < place.extent[axis];
      weight[s][q] = inside ? plan.weights[record * t.width + j] : 0.0f;
    }
    for (int i = thread; i < n * block_coils; i += threads) {
      const int s = i / block_coils, c = i % block_coils;
      const std::int64_t sample = list[s];
      float2 v = make_float2(0.0f, 0.0f);
      if (block_first + c < count) {
        v = samples[sample * all_coils + first_coil + block_first + c];
        if (density != nullptr) {
          const float d = density[sample];
          v.x *= d;
          v.y *= d;
        }
      }
      value[s][c] = v;
    }
    __syncthreads();
    for (int s = 0; s < n; ++s) {
      float w = weight[s][px];
      if (Dims > 1) w *= weight[s][T::kX + py];
      if (Dims > 2) w *= weight[s][T::kX + T::kY + pz];
      if (w == 0.0f) continue;
#pragma unroll
      for (int c = 0; c < Coils; ++c) {
        const float2 v = value[s][group * Coils + c];
        sum[c].x += w * v.x;
        sum[c].y += w * v.y;
      }
    }
  }

  if (px >= place.extent[2] || py >= place.extent[1] || pz >= place.extent[0]) return;
  const std::int64_t grid_size = static_cast<std::int64_t>(t.grid[0]) * t.grid[1] * t.grid[2];
  const std::int64_t offset =
      ((static_cast<std::int64_t>(place.origin[0]) + pz) * t.grid[1] + place.origin[1] + py) * t.grid[2] +
      place.origin[2] + px;
  for (int c = 0; c < Coils; ++c) {
    const std::int64_t coil = block_first + group * Coils + c;
    if (coil >= count) break;
    if (piece.slot < 0)
      grid[coil * grid_size + offset] = sum[c];
    else
      partial[(piece.slot * count + coil) * kTilePoints + point] = sum[c];
  }
}

/// Adds the partial sums of a split tile in order. blockDim = kTilePoints; gridDim.x = split tiles.
template <int Dims>
__global__ void add_partial_kernel(Tiling t, const SplitTile* split_tiles, std::int64_t count, const float2* partial,
                                   float2* grid) {
  using T = TileShape<Dims>;
  const SplitTile split = split_tiles[blockIdx.x];
  const TilePlace place = place_of(t, split.tile);
  const int point = threadIdx.x;
  const int px = point % T::kX, py = point / T::kX % T::kY, pz = point / (T::kX * T::kY);
  if (px >= place.extent[2] || py >= place.extent[1] || pz >= place.extent[0]) return;
  const std::int64_t grid_size = static_cast<std::int64_t>(t.grid[0]) * t.grid[1] * t.grid[2];
  const std::int64_t offset =
      ((static_cast<std::int64_t>(place.origin[0]) + pz) * t.grid[1] + place.origin[1] + py) * t.grid[2] +
      place.origin[2] + px;
  for (std::int64_t c = blockIdx.y; c < count; c += gridDim.y) {
    float2 sum = make_float2(0.0f, 0.0f);
    for (std::int64_t slot = split.first; slot < split.first + split.count; ++slot) {
      const float2 v = partial[(slot * count + c) * kTilePoints + point];
      sum.x += v.x;
      sum.y += v.y;
    }
    grid[c * grid_size + offset] = sum;
  }
}

template <int Dims, int Coils>
void launch_grid(Context& context, const NufftPlan::Impl& plan, const GridArguments& arguments) {
  const cudaStream_t stream = stream_of(context);
  const PlanView view{plan.tiling, plan.starts.data(), plan.weights.data(), plan.list.data(), plan.pieces.data()};
  // A launch takes at most 65535 blocks of coils.
  const std::int64_t groups = std::min<std::int64_t>(kMostGroups, (arguments.count + Coils - 1) / Coils);
  const std::int64_t per_block = groups * Coils, blocks_y = (arguments.count + per_block - 1) / per_block;
  if (blocks_y > kMostGridY) throw std::invalid_argument("nufft: too many coils");
  const dim3 blocks(static_cast<unsigned>(plan.pieces.size()), static_cast<unsigned>(blocks_y));
  const dim3 threads(kTilePoints, static_cast<unsigned>(groups));
  grid_kernel<Dims, Coils><<<blocks, threads, 0, stream>>>(view, device_view(arguments.samples), arguments.weights,
                                                           arguments.coils, arguments.first, arguments.count,
                                                           device_view(arguments.partial), device_view(arguments.grid));
  check_launch("grid");
  if (plan.split_tiles.size() == 0) return;
  const dim3 split_blocks(static_cast<unsigned>(plan.split_tiles.size()),
                          static_cast<unsigned>(std::min<std::int64_t>(arguments.count, kMostGridY)));
  add_partial_kernel<Dims><<<split_blocks, kTilePoints, 0, stream>>>(plan.tiling, plan.split_tiles.data(),
                                                                     arguments.count, device_view(arguments.partial),
                                                                     device_view(arguments.grid));
  check_launch("add_partial");
}

template <int Dims>
void launch_coils(Context& context, const NufftPlan::Impl& plan, const GridArguments& arguments) {
  if (arguments.count > 4)
    launch_grid<Dims, 8>(context, plan, arguments);
  else if (arguments.count > 2)
    launch_grid<Dims, 4>(context, plan, arguments);
  else if (arguments.count > 1)
    launch_grid<Dims, 2>(context, plan, arguments);
  else
    launch_grid<Dims, 1>(context, plan, arguments);
}

/// `factors`: those of the image's axes one after another.
__global__ void deapodize_kernel(Tiling t, const float* factors, const float2* grid, std::int64_t n, float2* image) {
  const std::int64_t nx = t.image[2], ny = t.image[1], nz = t.image[0];
  ECHOTRAIN_GRID_STRIDE(i, n) {
    const std::int64_t x = i % nx, y = i / nx % ny, z = i / (nx * ny) % nz, c = i / (nx * ny * nz);
    const float* axis = factors;
    float factor = 1;
    if (t.dims > 2) {
      factor *= axis[z];
      axis += nz;
    }
    if (t.dims > 1) {
      factor *= axis[y];
      axis += ny;
    }
    factor *= axis[x];
    const std::int64_t gx = x < nx / 2 ? x - nx / 2 + t.grid[2] : x - nx / 2;
    const std::int64_t gy = y < ny / 2 ? y - ny / 2 + t.grid[1] : y - ny / 2;
    const std::int64_t gz = z < nz / 2 ? z - nz / 2 + t.grid[0] : z - nz / 2;
    const float2 v = grid[((c * t.grid[0] + gz) * t.grid[1] + gy) * t.grid[2] + gx];
    image[i] = make_float2(v.x * factor, v.y * factor);
  }
}

/// An event for one use.
class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

void grid(Context& context, const NufftPlan::Impl& plan, const GridArguments& arguments) {
  if (plan.tiling.dims == 3)
    launch_coils<3>(context, plan, arguments);
  else if (plan.tiling.dims == 2)
    launch_coils<2>(context, plan, arguments);
  else
    launch_coils<1>(context, plan, arguments);
}

void deapodize(Context& context, const NufftPlan::Impl& plan, const cfloat* grid, std::int64_t coils, cfloat* image) {
  const Tiling& t = plan.tiling;
  const std::int64_t n = coils * t.image[0] * t.image[1] * t.image[2];
  deapodize_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(t, plan.deapodization.data(), device_view(grid),
                                                                       n, device_view(image));
  check_launch("deapodize");
}

void release_after(Context& context, const NufftPlan::Impl& plan) {
  const cudaStream_t stream = stream_of(context);
  if (plan.stream == context.stream()) return;
  const Event used;
  check(cudaEventRecord(used.get(), stream), "recording an event");
  check(cudaStreamWaitEvent(static_cast<cudaStream_t>(plan.stream), used.get(), 0), "ordering two streams");
}

}  // namespace echotrain::numerics::cuda
