// One block of threads per piece of a bin and group of coils. The grid around the bin is staged in shared memory, coils
// side by side; then some neighbouring threads share a sample: each takes one column (x) of its footprint and up to two
// coils, and they add their columns by shuffles. No atomics: a sample's sum has one fixed order.
#include <algorithm>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/nufft/nufft_plan.h"
#include "gadgets/numerics/nufft/nufft_window_cuda.cuh"

namespace echotrain::numerics::cuda {
namespace {

constexpr unsigned kWholeWarp = 0xffffffffu;

/// Complex values that a thread reads at once: one, or those of two coils.
template <int N>
struct alignas(4 * N) Floats {
  float v[N];
};

template <int Dims, int Width, int Coils>
struct Staging {
  static constexpr int kX = bin_edge(2, Dims, Width) + Width - 1;
  static constexpr int kY = Dims > 1 ? bin_edge(1, Dims, Width) + Width - 1 : 1;
  static constexpr int kZ = Dims > 2 ? bin_edge(0, Dims, Width) + Width - 1 : 1;
  static constexpr int kPoints = kX * kY * kZ;
  static constexpr int kFloats = Coils == 1 ? 2 : 4;  // of a thread
  static constexpr int kThreadsPerPoint = Coils == 1 ? 1 : Coils / 2;
  static constexpr int kColumns = Width <= 2 ? 2 : Width <= 4 ? 4 : 8;
  static constexpr int kThreadsPerSample = kColumns * kThreadsPerPoint;
  static constexpr std::size_t kBytes = std::size_t{4} * kPoints * kFloats * kThreadsPerPoint;
};

constexpr int kWeightThreads = 8, kWeightSamples = 32;  // of a block, when weights are made
static_assert(FootprintWeights::kWidest <= kWeightThreads);

/// A thread works out one point's weights along all axes. blockDim = (kWeightThreads, kWeightSamples).
template <int Dims>
__global__ void weights_kernel(int width, Windows windows, const Footprint* footprints, std::int64_t n,
                               float* weights) {
  const auto j = static_cast<int>(threadIdx.x);
  if (j >= width) return;
  for (std::int64_t s = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; s < n;
       s += static_cast<std::int64_t>(gridDim.x) * blockDim.y) {
    const Footprint f = footprints[s];
    const bool nowhere = f.start[0] == Footprint::kNowhere;
#pragma unroll
    for (int a = 0; a < Dims; ++a) {
      const float w = window_at<>(windows.axis[3 - Dims + a], width, static_cast<float>(j), f.shift[a]);
      weights[(s * Dims + a) * width + j] = nowhere ? 0.0f : w;
    }
  }
}

struct BinView {
  Tiling tiling;
  const Footprint* footprints;
  const float* weights;
  const std::int32_t* order;
  const BinPiece* bins;
};

__device__ inline std::int32_t wrapped(std::int32_t i, std::int32_t extent) {
  while (i >= extent) i -= extent;
  return i;
}

/// The weights of a footprint along one axis; all 1 along an axis that does not exist.
template <int Width, bool There>
__device__ inline void read_weights(const float* from, float (&to)[Width]) {
  if constexpr (There && Width % 4 == 0) {
#pragma unroll
    for (int j = 0; j < Width; j += 4) {
      const float4 v = *reinterpret_cast<const float4*>(from + j);
      to[j] = v.x;
      to[j + 1] = v.y;
      to[j + 2] = v.z;
      to[j + 3] = v.w;
    }
  } else {
#pragma unroll
    for (int j = 0; j < Width; ++j) to[j] = There ? from[j] : 1.0f;
  }
}

/// blockDim = kThreads; gridDim = pieces * groups of coils; a piece's groups are next to each other.
template <int Dims, int Width, int Coils>
__global__ void __launch_bounds__(kThreads)
    interpolate_kernel(BinView plan, const float2* __restrict__ grid, std::int64_t count, std::int64_t first_coil,
                       std::int64_t all_coils, unsigned groups, float2* __restrict__ samples) {
  using S = Staging<Dims, Width, Coils>;
  using Value = Floats<S::kFloats>;
  extern __shared__ __align__(16) unsigned char memory[];
  Value* const tile = reinterpret_cast<Value*>(memory);  // [z, y, x, thread of the point]

  const Tiling& t = plan.tiling;
  const BinPiece piece = plan.bins[blockIdx.x / groups];
  const std::int64_t coil = static_cast<std::int64_t>(blockIdx.x % groups) * Coils;  // the first, of those done now
  const std::int64_t grid_size = static_cast<std::int64_t>(t.grid[0]) * t.grid[1] * t.grid[2];
  for (int i = threadIdx.x; i < S::kPoints; i += kThreads) {
    const std::int32_t x = wrapped(piece.origin[2] + i % S::kX, t.grid[2]);
    const std::int32_t y = wrapped(piece.origin[1] + i / S::kX % S::kY, t.grid[1]);
    const std::int32_t z = wrapped(piece.origin[0] + i / (S::kX * S::kY), t.grid[0]);
    const float2* from = grid + coil * grid_size + (static_cast<std::int64_t>(z) * t.grid[1] + y) * t.grid[2] + x;
    float2 value[Coils];
#pragma unroll
    for (int c = 0; c < Coils; ++c) value[c] = coil + c < count ? from[c * grid_size] : make_float2(0.0f, 0.0f);
#pragma unroll
    for (int q = 0; q < S::kThreadsPerPoint; ++q) {
      Value v;
#pragma unroll
      for (int h = 0; h < S::kFloats / 2; ++h) {
        v.v[2 * h] = value[q * (S::kFloats / 2) + h].x;
        v.v[2 * h + 1] = value[q * (S::kFloats / 2) + h].y;
      }
      tile[i * S::kThreadsPerPoint + q] = v;
    }
  }
  __syncthreads();

  constexpr int kSamplesAtOnce = kThreads / S::kThreadsPerSample;
  const int part = threadIdx.x % S::kThreadsPerSample, pair = part % S::kThreadsPerPoint;
  const int column = part / S::kThreadsPerPoint;
  const bool inside = column < Width;
  const std::int32_t* const order = plan.order + piece.begin;
  int i = static_cast<int>(threadIdx.x) / S::kThreadsPerSample;
  std::int32_t next = order[min(i, piece.count - 1)];
  for (int base = 0; base < piece.count; base += kSamplesAtOnce, i += kSamplesAtOnce) {
    // Threads without a sample repeat the last one: all of a warp take part in its shuffles.
    const std::int64_t s = next;
    next = order[min(i + kSamplesAtOnce, piece.count - 1)];
    const int4 footprint = *reinterpret_cast<const int4*>(plan.footprints + s);
    // A sample outside the grid has zero weights and may read anywhere in the tile.
    const bool nowhere = footprint.x == Footprint::kNowhere;
    const std::int32_t start[3] = {nowhere ? piece.origin[3 - Dims] : footprint.x, footprint.y, footprint.z};
    const float* weights = plan.weights + s * (Dims * Width);
    const float wx = inside ? weights[(Dims - 1) * Width + column] : 0.0f;
    float wy[Width], wz[Width];
    read_weights<Width, (Dims > 1)>(weights + (Dims > 1 ? Dims - 2 : 0) * Width, wy);
    read_weights<Width, (Dims > 2)>(weights, wz);
    int at = start[Dims - 1] - piece.origin[2] + (inside ? column : 0);
    if (Dims > 1) at += (start[Dims > 1 ? Dims - 2 : 0] - piece.origin[1]) * S::kX;
    if (Dims > 2) at += (start[0] - piece.origin[0]) * (S::kX * S::kY);
    const Value* from = tile + at * S::kThreadsPerPoint + pair;

    Value sum{};
#pragma unroll
    for (int k = 0; k < (Dims > 2 ? Width : 1); ++k) {
      Value plane{};
#pragma unroll
      for (int j = 0; j < (Dims > 1 ? Width : 1); ++j) {
        const Value value = from[(k * S::kY + j) * S::kX * S::kThreadsPerPoint];
#pragma unroll
        for (int q = 0; q < S::kFloats; ++q) plane.v[q] += wy[j] * value.v[q];
      }
#pragma unroll
      for (int q = 0; q < S::kFloats; ++q) sum.v[q] += wz[k] * plane.v[q];
    }
#pragma unroll
    for (int q = 0; q < S::kFloats; ++q) {
      sum.v[q] *= wx;
#pragma unroll
      for (int other = S::kThreadsPerPoint; other < S::kThreadsPerSample; other *= 2)
        sum.v[q] += __shfl_xor_sync(kWholeWarp, sum.v[q], other);
    }
    // Column c writes the pair's coil c.
    const int mine = pair * (S::kFloats / 2) + column;
    if (i < piece.count && column < S::kFloats / 2 && coil + mine < count)
      samples[s * all_coils + first_coil + coil + mine] =
          column == 0 ? make_float2(sum.v[0], sum.v[1]) : make_float2(sum.v[S::kFloats - 2], sum.v[S::kFloats - 1]);
  }
}

template <int Dims, int Width, int Coils>
void launch(Context& context, const NufftPlan::Impl& plan, const InterpolateArguments& arguments) {
  constexpr std::size_t kBytes = Staging<Dims, Width, Coils>::kBytes;
  constexpr std::size_t kWithoutAsking = 48 << 10;
  static_assert(kBytes <= 99 << 10, "more than the smallest device has");
  const cudaStream_t stream = stream_of(context);
  const std::int64_t groups = (arguments.count + Coils - 1) / Coils, blocks = plan.bins.size() * groups;
  if (blocks > INT32_MAX) throw std::invalid_argument("nufft: too many coils");
  const auto kernel = interpolate_kernel<Dims, Width, Coils>;
  if (kBytes > kWithoutAsking)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
          "asking for shared memory");
  const BinView view{plan.tiling, plan.footprints.data(), plan.weights.data(), plan.order.data(), plan.bins.data()};
  kernel<<<static_cast<unsigned>(blocks), kThreads, kBytes, stream>>>(
      view, device_view(arguments.grid), arguments.count, arguments.first, arguments.coils,
      static_cast<unsigned>(groups), device_view(arguments.samples));
  check_launch("interpolate");
}

template <int Dims, int Width = 2>
void launch_width(Context& context, const NufftPlan::Impl& plan, const InterpolateArguments& arguments) {
  if constexpr (Width <= FootprintWeights::kWidest) {
    if (plan.tiling.width != Width)
      launch_width<Dims, Width + 1>(context, plan, arguments);
    else if constexpr (Dims == 1)  // in 1D, which no pipeline uses, one kernel serves any number of coils
      launch<Dims, Width, 4>(context, plan, arguments);
    else if (arguments.count == 1)
      launch<Dims, Width, 1>(context, plan, arguments);
    else
      launch<Dims, Width, 4>(context, plan, arguments);
  }
}

/// The index on the image's axis, of n, for index i on the grid's axis, of g, which is in FFT order; outside [0, n)
/// where the grid is empty.
__device__ inline int image_index(int i, int n, int g) { return (i < n - n / 2 ? i : i - g) + n / 2; }

/// One warp per row of the grid. `factors`: those of the image's axes one after another.
__global__ void apodize_kernel(Tiling t, const float* factors, const float2* image, std::int64_t rows, float2* grid) {
  const int nx = t.image[2], ny = t.image[1], nz = t.image[0], lane = threadIdx.x % 32;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (blockDim.x / 32);
  const float* fy = factors + (t.dims > 2 ? nz : 0);
  const float* fx = fy + (t.dims > 1 ? ny : 0);
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32; row < rows;
       row += warps) {
    const std::int64_t plane = row / t.grid[1], c = plane / t.grid[0];
    const int y = image_index(static_cast<int>(row % t.grid[1]), ny, t.grid[1]);
    const int z = image_index(static_cast<int>(plane % t.grid[0]), nz, t.grid[0]);
    float2* to = grid + row * t.grid[2];
    const bool empty = y < 0 || z < 0;
    const float factor = empty ? 0.0f : (t.dims > 2 ? factors[z] : 1.0f) * (t.dims > 1 ? fy[y] : 1.0f);
    const float2* from = image + ((c * nz + z) * ny + y) * nx;
    for (int i = lane; i < t.grid[2]; i += 32) {
      const int x = image_index(i, nx, t.grid[2]);
      float2 v = make_float2(0.0f, 0.0f);
      if (!empty && x >= 0) {
        const float f = factor * fx[x];
        v = make_float2(from[x].x * f, from[x].y * f);
      }
      to[i] = v;
    }
  }
}

}  // namespace

void make_weights(Context& context, NufftPlan::Impl& plan) {
  const Tiling& t = plan.tiling;
  Windows windows;
  std::copy_n(plan.windows, 3, windows.axis);
  plan.weights = context.allocate<float>({plan.samples * t.dims * t.width});
  const auto kernel = t.dims == 3 ? weights_kernel<3> : t.dims == 2 ? weights_kernel<2> : weights_kernel<1>;
  kernel<<<blocks_for(plan.samples * kWeightThreads), dim3(kWeightThreads, kWeightSamples), 0, stream_of(context)>>>(
      t.width, windows, plan.footprints.data(), plan.samples, plan.weights.data());
  check_launch("weights");
}

void interpolate(Context& context, const NufftPlan::Impl& plan, const InterpolateArguments& arguments) {
  if (plan.tiling.dims == 3)
    launch_width<3>(context, plan, arguments);
  else if (plan.tiling.dims == 2)
    launch_width<2>(context, plan, arguments);
  else
    launch_width<1>(context, plan, arguments);
}

void apodize(Context& context, const NufftPlan::Impl& plan, const cfloat* image, std::int64_t coils, cfloat* grid) {
  const Tiling& t = plan.tiling;
  const std::int64_t rows = coils * t.grid[0] * t.grid[1];
  apodize_kernel<<<blocks_for(rows * 32), kThreads, 0, stream_of(context)>>>(
      t, plan.deapodization.data(), device_view(image), rows, device_view(grid));
  check_launch("apodize");
}

}  // namespace echotrain::numerics::cuda
