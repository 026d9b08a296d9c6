// One block of threads per piece of a tile's list and group of coils. Samples and their kernel weights are copied to
// shared memory in batches, the next one while this one is worked on. What a tile gathers is a matrix product,
//   tile[point, coil] = sum over samples of weight[point, sample] value[sample, coil],
// and runs on the tensor cores: operands are split into two tf32 parts each and three products are added, which keeps
// fp32's accuracy (the product left out is 2^-22 of the whole). Sums are in list order: the same bits in every run.
// Source: Gregerson 2008, section 4.1 (output-driven, sector-based); the split: Markidis et al., IPDPSW 2018.
#include <algorithm>
#include <cstdint>

#include "gadgets/numerics/cuda_support.cuh"
#include "gadgets/numerics/nufft_plan.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kBatch = 32;  // samples staged at a time
constexpr int kWarps = 4;   // of a block; each owns 16 of the tile's points
constexpr int kBlock = 32 * kWarps;
constexpr int kCopiers = kBlock / kBatch;  // threads that copy one sample
static_assert(kTilePoints == 16 * kWarps);
constexpr int kDepth = 8;        // samples of one tensor core operation
constexpr int kCoilsPerMma = 4;  // its 8 columns: real and imaginary parts
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

/// A number as two tf32 numbers (10 explicit mantissa bits each). The tensor core reads no more bits than that.
struct Split {
  std::uint32_t high, low;
};
__device__ Split split(float v) {
  const std::uint32_t high = __float_as_uint(v) & 0xffffe000u;
  return {high, __float_as_uint(v - __uint_as_float(high))};
}

/// sum[16, 8] += a[16, 8] b[8, 8] on the tensor cores; the fragments' layout is PTX's for mma.m16n8k8.tf32.
__device__ void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Starts copying kBytes from global to shared memory: `bytes` of them, and zeros for the rest.
template <int kBytes>
__device__ void copy_async(void* to, const void* from, int bytes) {
  const auto target = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(from), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(target), "l"(from), "n"(kBytes), "r"(bytes)
                 : "memory");
}
__device__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// blockDim.x = kBlock; gridDim = (pieces, ceil(count / (kCoilsPerMma * Columns))). `paired`: samples of two coils lie
/// at multiples of 16 bytes.
template <int Dims, int Columns>
__global__ __launch_bounds__(kBlock) void grid_kernel(PlanView plan, const float2* samples, const float* density,
                                                      std::int64_t all_coils, std::int64_t first_coil,
                                                      std::int64_t count, bool paired, float2* partial, float2* grid) {
  using T = TileShape<Dims>;
  constexpr int kCoils = kCoilsPerMma * Columns;
  // Weights of a sample are spread over the points of the tile's axes: x, then y, then z.
  constexpr int kY = T::kX, kZ = kY + (Dims > 1 ? T::kY : 0), kSpread = kZ + (Dims > 2 ? T::kZ : 0);
  // A warp reads four samples at once; these strides put them into different banks.
  constexpr int kValueStride = 2 * kCoils + (Columns > 1 ? 8 : 0);
  constexpr int kWeightStride = Dims == 3 ? kSpread : kSpread + 8;
  constexpr int kNowhere = 1 << 24;  // a footprint's start that reaches no point
  static_assert(kY % kCopiers == 0 && kZ % kCopiers == 0);
  __shared__ __align__(16) float value[2][kBatch][kValueStride];
  __shared__ float weight[2][kBatch][kWeightStride];
  __shared__ float density_of[2][kBatch];
  __shared__ std::int32_t sample_of[2][kBatch];
  __shared__ std::int32_t start_of[2][Dims][kBatch];  // in the tile; axes slowest first

  const Tiling& t = plan.tiling;
  const Piece piece = plan.pieces[blockIdx.x];
  const TilePlace place = place_of(t, piece.tile);
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int row = lane / 4, column = lane % 4;  // of the operation's fragments
  const int width = t.width, batches = (piece.count + kBatch - 1) / kBatch;
  const std::int64_t block_first = static_cast<std::int64_t>(blockIdx.y) * kCoils;  // of the coils gridded now

  // The first warp looks up, a thread a sample, which sample comes and where its footprint starts: well ahead, as each
  // look-up waits for the one before.
  const auto listed = [&](int b) {
    const int i = b * kBatch + lane;
    return i < piece.count ? plan.list[piece.begin + i] : -1;
  };
  const auto started = [&](std::int32_t sample, std::int32_t(&start)[Dims]) {
    for (int a = 0; a < Dims; ++a) {
      const int axis = a + 3 - Dims;
      start[a] = kNowhere;
      if (sample < 0) continue;
      start[a] = plan.starts[static_cast<std::int64_t>(sample) * Dims + a] - place.origin[axis];
      if (start[a] >= place.extent[axis]) start[a] -= t.grid[axis];  // it reaches this tile around the grid's end
    }
  };
  const auto note = [&](int b, std::int32_t sample, const std::int32_t(&start)[Dims]) {
    sample_of[b & 1][lane] = sample;
    for (int a = 0; a < Dims; ++a) start_of[b & 1][a][lane] = start[a];
  };
  const auto start_copies = [&](int b) {
    const int s = thread / kCopiers, part = thread % kCopiers;
    const std::int32_t noted = sample_of[b & 1][s];
    const bool there = noted >= 0;
    const std::int64_t sample = there ? noted : 0;
    const float* weights = plan.weights + sample * (Dims * width);
#pragma unroll
    for (int q = 0; q < kSpread; q += kCopiers) {
      const int a = q < kY ? Dims - 1 : q < kZ ? Dims - 2 : 0;
      const int point = (q < kY ? q : q < kZ ? q - kY : q - kZ) + part;
      const auto j = static_cast<unsigned>(point - start_of[b & 1][a][s]);
      const bool inside = j < static_cast<unsigned>(width);
      copy_async<4>(&weight[b & 1][s][q + part], inside ? weights + a * width + j : weights, inside ? 4 : 0);
    }
    const float2* values = samples + sample * all_coils + first_coil + block_first;
    const auto coils = static_cast<int>(min(static_cast<std::int64_t>(kCoils), count - block_first));
    if (paired) {
      for (int c = 2 * part; c < kCoils; c += 2 * kCopiers) {
        const int bytes = there ? 8 * max(0, min(2, coils - c)) : 0;
        copy_async<16>(&value[b & 1][s][2 * c], bytes > 0 ? values + c : samples, bytes);
      }
    } else {
      for (int c = part; c < kCoils; c += kCopiers) {
        const int bytes = there && c < coils ? 8 : 0;
        copy_async<8>(&value[b & 1][s][2 * c], bytes > 0 ? values + c : samples, bytes);
      }
    }
    if (density != nullptr && part == 0) copy_async<4>(&density_of[b & 1][s], density + sample, there ? 4 : 0);
  };

  std::int32_t ahead = -1, start[Dims];
  if (warp == 0) {
    const std::int32_t first = listed(0), second = listed(1);
    ahead = listed(2);
    started(first, start);
    note(0, first, start);
    started(second, start);
    note(1, second, start);
  }
  __syncthreads();
  start_copies(0);

  float sum[Columns][4] = {};  // points row and row + 8 of the warp's, coil `column` of each group of four
  for (int b = 0; b < batches; ++b) {
    wait_for_copies();
    __syncthreads();  // this batch is here, the one before it is used up, the next one's samples are noted
    if (b + 1 < batches) start_copies(b + 1);
    std::int32_t after = -1;
    if (warp == 0) {
      started(ahead, start);
      after = listed(b + 3);
    }

    const int n = min(kBatch, piece.count - b * kBatch);
    // Tensor cores add with less than fp32's care, so their sums are kept short.
    float batch[Columns][4] = {};
    for (int s = 0; s < n; s += kDepth) {
      std::uint32_t high[4], low[4];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int sample = s + column + 4 * k;
        const float* spread = weight[b & 1][sample];
        float w[2];  // of points row and row + 8
        if constexpr (Dims == 1) {
          w[0] = spread[16 * warp + row];
          w[1] = spread[16 * warp + row + 8];
        } else if constexpr (Dims == 2) {
          w[0] = spread[row] * spread[kY + 2 * warp];
          w[1] = spread[row] * spread[kY + 2 * warp + 1];
        } else {
          const float zx = spread[kZ + warp] * spread[row % T::kX];
          w[0] = zx * spread[kY + row / T::kX];
          w[1] = zx * spread[kY + row / T::kX + 2];
        }
        if (density != nullptr) {
          w[0] *= density_of[b & 1][sample];
          w[1] *= density_of[b & 1][sample];
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Split a = split(w[half]);
          high[2 * k + half] = a.high;
          low[2 * k + half] = a.low;
        }
      }
#pragma unroll
      for (int c = 0; c < Columns; ++c) {
        const Split b0 = split(value[b & 1][s + column][8 * c + row]);
        const Split b1 = split(value[b & 1][s + column + 4][8 * c + row]);
        multiply_add(batch[c], low, b0.high, b1.high);
        multiply_add(batch[c], high, b0.low, b1.low);
        multiply_add(batch[c], high, b0.high, b1.high);
      }
    }
#pragma unroll
    for (int c = 0; c < Columns; ++c)
      for (int i = 0; i < 4; ++i) sum[c][i] += batch[c][i];
    if (warp == 0) {
      note(b + 2, ahead, start);
      ahead = after;
    }
  }

  const std::int64_t grid_size = static_cast<std::int64_t>(t.grid[0]) * t.grid[1] * t.grid[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int point = 16 * warp + row + 8 * half;
    const int px = point % T::kX, py = point / T::kX % T::kY, pz = point / (T::kX * T::kY);
    if (px >= place.extent[2] || py >= place.extent[1] || pz >= place.extent[0]) continue;
    const std::int64_t offset =
        ((static_cast<std::int64_t>(place.origin[0]) + pz) * t.grid[1] + place.origin[1] + py) * t.grid[2] +
        place.origin[2] + px;
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
      const std::int64_t coil = block_first + kCoilsPerMma * c + column;
      if (coil >= count) continue;
      const float2 v = make_float2(sum[c][2 * half], sum[c][2 * half + 1]);
      if (piece.slot < 0)
        grid[coil * grid_size + offset] = v;
      else
        partial[(piece.slot * count + coil) * kTilePoints + point] = v;
    }
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

template <int Dims, int Columns>
void launch_grid(Context& context, const NufftPlan::Impl& plan, const GridArguments& arguments) {
  const cudaStream_t stream = stream_of(context);
  const PlanView view{plan.tiling, plan.starts.data(), plan.weights.data(), plan.list.data(), plan.pieces.data()};
  constexpr std::int64_t kPerBlock = kCoilsPerMma * Columns;
  const std::int64_t blocks_y = (arguments.count + kPerBlock - 1) / kPerBlock;
  if (blocks_y > kMostGridY) throw std::invalid_argument("nufft: too many coils");
  const dim3 blocks(static_cast<unsigned>(plan.pieces.size()), static_cast<unsigned>(blocks_y));
  const float2* samples = device_view(arguments.samples);
  const bool paired =
      reinterpret_cast<std::uintptr_t>(samples) % 16 == 0 && arguments.coils % 2 == 0 && arguments.first % 2 == 0;
  grid_kernel<Dims, Columns><<<blocks, kBlock, 0, stream>>>(
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

template <int Dims>
void launch_coils(Context& context, const NufftPlan::Impl& plan, const GridArguments& arguments) {
  if (arguments.count > 2 * kCoilsPerMma)
    launch_grid<Dims, 4>(context, plan, arguments);
  else if (arguments.count > kCoilsPerMma)
    launch_grid<Dims, 2>(context, plan, arguments);
  else
    launch_grid<Dims, 1>(context, plan, arguments);
}

/// `factors`: those of the image's axes one after another.
/// A row of threads per image row, so that indices are worked out once a row.
__global__ void deapodize_kernel(Tiling t, const float* factors, const float2* grid, std::int64_t rows, float2* image) {
  const int nx = t.image[2], ny = t.image[1], nz = t.image[0];
  const float* fx = factors + (t.dims > 2 ? nz : 0) + (t.dims > 1 ? ny : 0);
  const auto wrapped = [](int i, int n, int extent) { return i < n / 2 ? i - n / 2 + extent : i - n / 2; };
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < rows;
       row += static_cast<std::int64_t>(gridDim.x) * blockDim.y) {
    const std::int64_t plane = row / ny, c = plane / nz;
    const int y = static_cast<int>(row % ny), z = static_cast<int>(plane % nz);
    float factor = 1;
    if (t.dims > 2) factor *= factors[z];
    if (t.dims > 1) factor *= factors[(t.dims > 2 ? nz : 0) + y];
    const float2* from =
        grid + ((c * t.grid[0] + wrapped(z, nz, t.grid[0])) * t.grid[1] + wrapped(y, ny, t.grid[1])) * t.grid[2];
    float2* to = image + row * nx;
    for (int x = threadIdx.x; x < nx; x += blockDim.x) {
      const float2 v = from[wrapped(x, nx, t.grid[2])];
      const float f = factor * fx[x];
      to[x] = make_float2(v.x * f, v.y * f);
    }
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
  const std::int64_t rows = coils * t.image[0] * t.image[1];
  const dim3 threads(64, 4);
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((rows + 3) / 4, 1 << 20));
  deapodize_kernel<<<blocks, threads, 0, stream_of(context)>>>(t, plan.deapodization.data(), device_view(grid), rows,
                                                               device_view(image));
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
