// One warp per piece of a tile's list and group of coils. Samples are copied to shared memory in batches and their
// kernel weights worked out there, once for all coils, while the next batch is on its way: a window of a dozen
// multiplications costs less than a look-up in memory. What a tile gathers is a matrix product,
//   tile[point, coil] = sum over samples of weight[point, sample] value[sample, coil],
// and runs on the tensor cores: operands are split into two tf32 parts each and three products are added, which keeps
// fp32's accuracy (the product left out is 2^-22 of the whole). Sums are in list order: the same bits in every run.
// Source: Gregerson 2008, section 4.1 (output-driven, sector-based); the split: Markidis et al., IPDPSW 2018.
#include <algorithm>
#include <cstdint>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/nufft/nufft_plan.h"
#include "gadgets/numerics/nufft/nufft_window_cuda.cuh"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kBatch = 32;  // samples staged at a time, one a lane
/// Warps of a block. In 1D a tile has a weight for every point, so a warp needs more shared memory.
constexpr int warps_of_block(int dims) { return dims == 1 ? 1 : 4; }
constexpr int kDepth = 8;        // samples of one tensor core operation
constexpr int kCoilsPerMma = 4;  // its 8 columns: real and imaginary parts
constexpr unsigned kWholeWarp = 0xffffffffu;
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
  Windows windows;
  const Footprint* footprints;
  const std::int32_t* list;
  const Piece* pieces;
  std::int32_t piece_count;
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

/// A number as two tf32 numbers (10 explicit mantissa bits each), the first rounded. The tensor core reads no more bits
/// than that.
struct Split {
  std::uint32_t high, low;
};
__device__ Split split(float v) {
  const std::uint32_t high = (__float_as_uint(v) + 0x1000u) & 0xffffe000u;
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
__device__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for all copies but those of the last group.
__device__ void wait_for_copies_but_last() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

/// Where a sample lies in a tile, and its density.
template <int Dims>
struct Placed {
  float start[Dims];  // slowest axis first; a whole number
  float shift[Dims], density;
};

/// One warp per piece and group of coils. blockDim.x = 32 kWarps; gridDim = (ceil(pieces / kWarps), ceil(count /
/// (kCoilsPerMma * Columns))). `paired`: samples of two coils lie at multiples of 16 bytes.
template <int Dims, int Columns, int Terms>
__global__ __launch_bounds__(32 * warps_of_block(Dims)) void grid_kernel(PlanView plan, const float2* samples,
                                                                         const float* density, std::int64_t all_coils,
                                                                         std::int64_t first_coil, std::int64_t count,
                                                                         bool paired, float2* partial, float2* grid) {
  using T = TileShape<Dims>;
  constexpr int kWarps = warps_of_block(Dims), kCoils = kCoilsPerMma * Columns;
  // Weights of a sample are spread over the points of the tile's axes: x, then y, then z.
  constexpr int kY = T::kX, kZ = kY + (Dims > 1 ? T::kY : 0), kSpread = kZ + (Dims > 2 ? T::kZ : 0);
  // These strides put what a warp reads at once into different banks.
  constexpr int kValueStride = 2 * kCoils + 4, kWeightStride = kBatch + 8;
  constexpr float kOutside = 1 << 20;  // a footprint's start that reaches no point
  __shared__ __align__(16) float values_of_warps[kWarps][2][kBatch][kValueStride];
  __shared__ __align__(16) float weights_of_warps[kWarps][kSpread][kWeightStride];

  const Tiling& t = plan.tiling;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::int32_t number = static_cast<std::int32_t>(blockIdx.x) * kWarps + warp;
  if (number >= plan.piece_count) return;
  auto& value = values_of_warps[warp];
  auto& weight = weights_of_warps[warp];
  const Piece piece = plan.pieces[number];
  const TilePlace place = place_of(t, piece.tile);
  const int row = lane / 4, column = lane % 4;  // of the operation's fragments
  const int batches = (piece.count + kBatch - 1) / kBatch;
  const auto width = static_cast<float>(t.width);
  const std::int64_t block_first = static_cast<std::int64_t>(blockIdx.y) * kCoils;  // of the coils gridded now
  const auto coils = static_cast<int>(min(static_cast<std::int64_t>(kCoils), count - block_first));
  const std::int32_t* const list = plan.list + piece.begin;
  const char* const first_value = reinterpret_cast<const char*>(samples + first_coil + block_first);
  const auto value_stride = static_cast<std::uint32_t>(all_coils * sizeof(float2));

  // A lane looks up a sample of a batch. Looking up is done well ahead, as each step waits for the one before.
  const auto listed = [&](int b) {
    const int i = b * kBatch + lane;
    return i < piece.count ? list[i] : -1;
  };
  const auto placed = [&](std::int32_t sample) {
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
      if (begin >= place.extent[axis]) begin -= t.grid[axis];  // it reaches this tile around the grid's end
      p.start[a] = static_cast<float>(begin);
      p.shift[a] = shift[a];
    }
    return p;
  };
  const auto note_weights = [&](const Placed<Dims>& p) {
    const auto note = [&](int a, int point, int q, float factor) {
      const float j = static_cast<float>(point) - p.start[a];
      const float w = factor * window_at<Terms>(plan.windows.axis[a + 3 - Dims], t.width, j, p.shift[a]);
      weight[q][lane] = j >= 0 && j < width ? w : 0.0f;
    };
#pragma unroll 8
    for (int x = 0; x < T::kX; ++x) note(Dims - 1, x, x, p.density);
    if constexpr (Dims > 1)
#pragma unroll
      for (int y = 0; y < T::kY; ++y) note(Dims - 2, y, kY + y, 1.0f);
    if constexpr (Dims > 2)
#pragma unroll
      for (int z = 0; z < T::kZ; ++z) note(Dims - 3, z, kZ + z, 1.0f);
  };
  // `mine`: the lane's sample of batch b. Neighbouring lanes copy neighbouring coils.
  const auto start_copies = [&](int b, std::int32_t mine) {
    constexpr int kPerSample = kCoils / 2;  // copies of two coils
#pragma unroll
    for (int i = 0; i < kPerSample; ++i) {
      const int s = (i * 32 + lane) / kPerSample, c = 2 * (lane % kPerSample);
      const std::int32_t sample = __shfl_sync(kWholeWarp, mine, s);
      const char* from = first_value + 8 * c;
      if (sample >= 0) from += static_cast<std::uint64_t>(static_cast<std::uint32_t>(sample)) * value_stride;
      float* to = &value[b & 1][s][2 * c];
      if (paired) {
        const int bytes = sample < 0 ? 0 : 8 * max(0, min(2, coils - c));
        copy_async<16>(to, bytes > 0 ? from : first_value, bytes);
      } else {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int bytes = sample >= 0 && c + k < coils ? 8 : 0;
          copy_async<8>(to + 2 * k, bytes > 0 ? from + 8 * k : first_value, bytes);
        }
      }
    }
  };

  std::int32_t next = listed(0);
  Placed<Dims> next_placed = placed(next);
  if (batches > 0) start_copies(0, next);
  commit_copies();
  next = listed(1);

  // Of 16 points of the tile each: points row and row + 8, coil `column` of each group of four.
  float sum[kTilePoints / 16][Columns][4] = {};
  for (int b = 0; b < batches; ++b) {
    if (b + 1 < batches) start_copies(b + 1, next);
    commit_copies();
    note_weights(next_placed);
    next_placed = placed(next);
    next = listed(b + 2);
    wait_for_copies_but_last();
    __syncwarp();

    const int n = min(kBatch, piece.count - b * kBatch);
    // Tensor cores add with less than fp32's care, so their sums are kept short.
    float batch[kTilePoints / 16][Columns][4] = {};
    for (int s = 0; s < n; s += kDepth) {
      // Of the operation's eight samples, a thread holds numbers `column` and `column + 4`: here 2 column and one more.
      const int sample = s + 2 * column;
      const auto weights = [&](int q) { return *reinterpret_cast<const float2*>(&weight[q][sample]); };
      Split b0[Columns], b1[Columns];
#pragma unroll
      for (int c = 0; c < Columns; ++c) {
        b0[c] = split(value[b & 1][sample][8 * c + row]);
        b1[c] = split(value[b & 1][sample + 1][8 * c + row]);
      }
      float2 x, xy[2];  // what all of the tile's points share
      if constexpr (Dims == 2) x = weights(row);
      if constexpr (Dims == 3) {
        x = weights(row % T::kX);
        for (int half = 0; half < 2; ++half) {
          const float2 y = weights(kY + row / T::kX + 2 * half);
          xy[half] = make_float2(x.x * y.x, x.y * y.y);
        }
      }
#pragma unroll
      for (int m = 0; m < kTilePoints / 16; ++m) {
        std::uint32_t high[4], low[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float2 w;  // of points row and row + 8
          if constexpr (Dims == 1) {
            w = weights(16 * m + row + 8 * half);
          } else if constexpr (Dims == 2) {
            const float2 y = weights(kY + 2 * m + half);
            w = make_float2(x.x * y.x, x.y * y.y);
          } else {
            const float2 z = weights(kZ + m);
            w = make_float2(xy[half].x * z.x, xy[half].y * z.y);
          }
          const Split first = split(w.x), second = split(w.y);
          high[half] = first.high;
          low[half] = first.low;
          high[2 + half] = second.high;
          low[2 + half] = second.low;
        }
        // Operations on one sum wait for each other, so those of different coils take turns.
#pragma unroll
        for (int c = 0; c < Columns; ++c) multiply_add(batch[m][c], low, b0[c].high, b1[c].high);
#pragma unroll
        for (int c = 0; c < Columns; ++c) multiply_add(batch[m][c], high, b0[c].low, b1[c].low);
#pragma unroll
        for (int c = 0; c < Columns; ++c) multiply_add(batch[m][c], high, b0[c].high, b1[c].high);
      }
    }
#pragma unroll
    for (int m = 0; m < kTilePoints / 16; ++m)
#pragma unroll
      for (int c = 0; c < Columns; ++c)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[m][c][i] += batch[m][c][i];
    __syncwarp();  // the batch is used up
  }

  const std::int64_t grid_size = static_cast<std::int64_t>(t.grid[0]) * t.grid[1] * t.grid[2];
#pragma unroll
  for (int m = 0; m < kTilePoints / 16; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int point = 16 * m + row + 8 * half;
      const int px = point % T::kX, py = point / T::kX % T::kY, pz = point / (T::kX * T::kY);
      if (px >= place.extent[2] || py >= place.extent[1] || pz >= place.extent[0]) continue;
      const std::int64_t offset =
          ((static_cast<std::int64_t>(place.origin[0]) + pz) * t.grid[1] + place.origin[1] + py) * t.grid[2] +
          place.origin[2] + px;
#pragma unroll
      for (int c = 0; c < Columns; ++c) {
        const std::int64_t coil = block_first + kCoilsPerMma * c + column;
        if (coil >= count) continue;
        const float2 v = make_float2(sum[m][c][2 * half], sum[m][c][2 * half + 1]);
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
  constexpr int kFew = 12;  // up to width 7 at the usual oversampling
  if (are_short(plan.windows, kFew))
    launch_grid<Dims, Columns, kFew>(context, plan, arguments);
  else
    launch_grid<Dims, Columns, WindowPolynomial::kMostTerms>(context, plan, arguments);
}

template <int Dims>
void launch_coils(Context& context, const NufftPlan::Impl& plan, const GridArguments& arguments) {
  if (arguments.count > 2 * kCoilsPerMma)
    launch_terms<Dims, 4>(context, plan, arguments);
  else if (arguments.count > kCoilsPerMma)
    launch_terms<Dims, 2>(context, plan, arguments);
  else
    launch_terms<Dims, 1>(context, plan, arguments);
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
