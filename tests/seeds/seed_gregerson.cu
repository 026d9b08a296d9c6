#include <algorithm>
#include <cstring>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "tests/seeds/seed_gregerson.h"

namespace echotrain::seed {
namespace {

using numerics::Context;
using numerics::cuda::check;
using numerics::cuda::check_launch;
using numerics::cuda::stream_of;

constexpr int kPlane = kGrid * kGrid;
constexpr int kWindowPoints = kWindow * kWindow;
constexpr int kCached = 32;  // samples that a block stages
constexpr int kWindows = 4;  // samples that a block works on at a time, with kWindowPoints threads each
constexpr int kBatch = 256;  // samples staged at a time by output_driven, one per thread
constexpr int kBlockEdge = 16;
constexpr int kSectors = kGrid / kSector;
constexpr int kHalo = kWindow / 2;
constexpr int kTile = kSector + 2 * kHalo;  // a sector and its halo
constexpr int kTilePoints = kTile * kTile;

__constant__ float table[kTableSize];

// --- kernels ---

/// First point of the window along an axis.
__device__ int first_point(float position) { return static_cast<int>(ceilf(position - kWindow / 2)); }

__device__ float computed_weight(float dx, float dy) { return expf(gaussian_exponent(dx * dx + dy * dy)); }

__device__ float table_weight(float dx, float dy) {
  return table[static_cast<int>(sqrtf(dx * dx + dy * dy) * kTablePerCell)];
}

/// blockDim = kWindowPoints; gridDim = samples.
__global__ void naive_kernel(const Sample* samples, float2* grid) {
  const Sample s = samples[blockIdx.x];
  const int x = first_point(s.x) + static_cast<int>(threadIdx.x) % kWindow;
  const int y = first_point(s.y) + static_cast<int>(threadIdx.x) / kWindow;
  const float w = computed_weight(static_cast<float>(x) - s.x, static_cast<float>(y) - s.y);
  atomicAdd(&grid[y * kGrid + x].x, w * s.re);
  atomicAdd(&grid[y * kGrid + x].y, w * s.im);
}

/// blockDim = (kWindowPoints, kWindows); gridDim = ceil(count / kCached).
__global__ void cached_kernel(const float* samples, int count, float2* grid) {
  __shared__ float cache[kCached * 4];
  const int first = static_cast<int>(blockIdx.x) * kCached, n = min(kCached, count - first);
  const int thread = static_cast<int>(threadIdx.y * kWindowPoints + threadIdx.x);
  for (int i = thread; i < n * 4; i += kWindowPoints * kWindows) cache[i] = samples[first * 4 + i];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.y); i < n; i += kWindows) {
    const float sx = cache[i * 4], sy = cache[i * 4 + 1], re = cache[i * 4 + 2], im = cache[i * 4 + 3];
    const int x = first_point(sx) + static_cast<int>(threadIdx.x) % kWindow;
    const int y = first_point(sy) + static_cast<int>(threadIdx.x) / kWindow;
    const float w = computed_weight(static_cast<float>(x) - sx, static_cast<float>(y) - sy);
    atomicAdd(&grid[y * kGrid + x].x, w * re);
    atomicAdd(&grid[y * kGrid + x].y, w * im);
  }
}

/// blockDim = (kBlockEdge, kBlockEdge); gridDim covers the grid. No atomics: a thread owns its point.
__global__ void output_driven_kernel(const float* samples, int count, float2* grid) {
  __shared__ float cache[kBatch * 4];
  const int x = static_cast<int>(blockIdx.x * kBlockEdge + threadIdx.x);
  const int y = static_cast<int>(blockIdx.y * kBlockEdge + threadIdx.y);
  const int thread = static_cast<int>(threadIdx.y * kBlockEdge + threadIdx.x);
  float2 sum = make_float2(0.0f, 0.0f);
  for (int first = 0; first < count; first += kBatch) {
    const int n = min(kBatch, count - first);
    __syncthreads();  // the batch before this one is used up
    for (int i = thread; i < n * 4; i += kBlockEdge * kBlockEdge) cache[i] = samples[first * 4 + i];
    __syncthreads();
    for (int i = 0; i < n; ++i) {
      const float sx = cache[i * 4], sy = cache[i * 4 + 1];
      const int column = x - first_point(sx), row = y - first_point(sy);
      if (column < 0 || column >= kWindow || row < 0 || row >= kWindow) continue;
      const float w = computed_weight(static_cast<float>(x) - sx, static_cast<float>(y) - sy);
      sum.x += w * cache[i * 4 + 2];
      sum.y += w * cache[i * 4 + 3];
    }
  }
  grid[y * kGrid + x] = sum;
}

/// Launched as cached_kernel. A sample is one 16-byte load; real and imaginary parts lie in planes of their own, so
/// that threads side by side touch words side by side.
template <bool Table>
__global__ void aligned_kernel(const float4* samples, int count, float* re_plane, float* im_plane) {
  __shared__ float4 cache[kCached];
  const int first = static_cast<int>(blockIdx.x) * kCached, n = min(kCached, count - first);
  const int thread = static_cast<int>(threadIdx.y * kWindowPoints + threadIdx.x);
  if (thread < n) cache[thread] = samples[first + thread];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.y); i < n; i += kWindows) {
    const float4 s = cache[i];
    const int x = first_point(s.x) + static_cast<int>(threadIdx.x) % kWindow;
    const int y = first_point(s.y) + static_cast<int>(threadIdx.x) / kWindow;
    const float dx = static_cast<float>(x) - s.x, dy = static_cast<float>(y) - s.y;
    const float w = Table ? table_weight(dx, dy) : computed_weight(dx, dy);
    atomicAdd(&re_plane[y * kGrid + x], w * s.z);
    atomicAdd(&im_plane[y * kGrid + x], w * s.w);
  }
}

/// blockDim = (kWindowPoints, kWindows); gridDim = sectors. Sums the samples of a sector over it and its halo in shared
/// memory, and writes both to a tile of the sector's own.
__global__ void sector_kernel(const float4* sorted, const int* starts, float* padded) {
  extern __shared__ float tile[];  // [2, kTile, kTile]
  const int sector = static_cast<int>(blockIdx.x);
  const int left = sector % kSectors * kSector - kHalo, top = sector / kSectors * kSector - kHalo;
  const int thread = static_cast<int>(threadIdx.y * kWindowPoints + threadIdx.x);
  for (int i = thread; i < 2 * kTilePoints; i += kWindowPoints * kWindows) tile[i] = 0;
  __syncthreads();
  for (int i = starts[sector] + static_cast<int>(threadIdx.y); i < starts[sector + 1]; i += kWindows) {
    const float4 s = sorted[i];
    const int x = first_point(s.x) + static_cast<int>(threadIdx.x) % kWindow;
    const int y = first_point(s.y) + static_cast<int>(threadIdx.x) / kWindow;
    const float w = table_weight(static_cast<float>(x) - s.x, static_cast<float>(y) - s.y);
    const int at = (y - top) * kTile + x - left;
    atomicAdd(&tile[at], w * s.z);
    atomicAdd(&tile[kTilePoints + at], w * s.w);
  }
  __syncthreads();
  for (int i = thread; i < 2 * kTilePoints; i += kWindowPoints * kWindows)
    padded[sector * 2 * kTilePoints + i] = tile[i];
}

/// Adds the tiles that a point is in, up to four, in order: what the seed left to the host. One thread per point of the
/// two planes.
__global__ void combine_kernel(const float* padded, float* planes) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int part = i / kPlane, x = i % kGrid, y = i % kPlane / kGrid;
  const int low_x = max(0, x - kHalo) / kSector, high_x = min(kGrid - 1, x + kHalo) / kSector;
  const int low_y = max(0, y - kHalo) / kSector, high_y = min(kGrid - 1, y + kHalo) / kSector;
  float sum = 0;
  for (int sy = low_y; sy <= high_y; ++sy)
    for (int sx = low_x; sx <= high_x; ++sx) {
      const int column = x - (sx * kSector - kHalo), row = y - (sy * kSector - kHalo);
      if (column >= 0 && column < kTile && row >= 0 && row < kTile)
        sum += padded[((sy * kSectors + sx) * 2 + part) * kTilePoints + row * kTile + column];
    }
  planes[i] = sum;
}

// --- launches ---

bool has_planes(Rung rung) {
  return rung == Rung::aligned_layout || rung == Rung::constant_table || rung == Rung::sector_tiles ||
         rung == Rung::two_blocks_per_sm;
}

int sector_of(const Sample& s) { return static_cast<int>(s.y) / kSector * kSectors + static_cast<int>(s.x) / kSector; }

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "asking for a property of the device");
  return value;
}

numerics::Array<float> upload(Context& context, const std::vector<Sample>& samples) {
  std::vector<float> flat(4 * samples.size());
  std::memcpy(flat.data(), samples.data(), samples.size() * sizeof(Sample));
  return context.upload<float>({flat.data(), {static_cast<std::int64_t>(samples.size()), 4}});
}

}  // namespace

Ladder::Ladder(Context& context, const std::vector<Sample>& samples)
    : context_(context), count_(static_cast<std::int32_t>(samples.size())) {
  std::vector<Sample> sorted = samples;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Sample& a, const Sample& b) { return sector_of(a) < sector_of(b); });
  std::vector<std::int32_t> starts(kSectors * kSectors + 1, 0);
  for (const Sample& s : sorted) ++starts[static_cast<std::size_t>(sector_of(s)) + 1];
  for (std::size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];

  samples_ = upload(context, samples);
  sorted_ = upload(context, sorted);
  starts_ = context.upload<std::int32_t>({starts.data(), {static_cast<std::int64_t>(starts.size())}});
  grid_ = context.allocate<float>({2 * kPlane});
  padded_ = context.allocate<float>({kSectors * kSectors * 2 * kTilePoints});
  const std::vector<float> weights = gaussian_table();
  check(cudaMemcpyToSymbolAsync(table, weights.data(), sizeof table, 0, cudaMemcpyHostToDevice, stream_of(context)),
        "copying the kernel table");
  context.synchronize();
}

void Ladder::run(Rung rung) {
  if (rung == Rung::sector_tiles) return run_sectors(1);
  if (rung == Rung::two_blocks_per_sm) return run_sectors(2);
  const cudaStream_t stream = stream_of(context_);
  float* planes = grid_.data();
  float2* grid = reinterpret_cast<float2*>(planes);
  if (rung == Rung::output_driven) {
    constexpr unsigned kBlocks = kGrid / kBlockEdge;
    output_driven_kernel<<<dim3(kBlocks, kBlocks), dim3(kBlockEdge, kBlockEdge), 0, stream>>>(samples_.data(), count_,
                                                                                              grid);
    return check_launch("output_driven");
  }

  check(cudaMemsetAsync(planes, 0, 2 * kPlane * sizeof(float), stream), "clearing the grid");
  const unsigned blocks = static_cast<unsigned>((count_ + kCached - 1) / kCached);
  const dim3 threads(kWindowPoints, kWindows);
  const float4* aligned = reinterpret_cast<const float4*>(samples_.data());
  if (rung == Rung::naive_input_driven)
    naive_kernel<<<static_cast<unsigned>(count_), kWindowPoints, 0, stream>>>(
        reinterpret_cast<const Sample*>(samples_.data()), grid);
  else if (rung == Rung::cached_input)
    cached_kernel<<<blocks, threads, 0, stream>>>(samples_.data(), count_, grid);
  else if (rung == Rung::aligned_layout)
    aligned_kernel<false><<<blocks, threads, 0, stream>>>(aligned, count_, planes, planes + kPlane);
  else
    aligned_kernel<true><<<blocks, threads, 0, stream>>>(aligned, count_, planes, planes + kPlane);
  check_launch("gridding samples");
}

/// Lets no more blocks onto a multiprocessor than asked for, by asking for so much shared memory.
void Ladder::run_sectors(int blocks_per_multiprocessor) {
  const cudaStream_t stream = stream_of(context_);
  const int all = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, context_.device());
  const int most = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, context_.device());
  constexpr int kNeeded = 2 * kTilePoints * static_cast<int>(sizeof(float));
  constexpr int kMargin = 1024;
  const int bytes = std::max(kNeeded, std::min(most, all / (blocks_per_multiprocessor + 1) + kMargin));
  check(cudaFuncSetAttribute(sector_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "asking for shared memory");
  sector_kernel<<<kSectors * kSectors, dim3(kWindowPoints, kWindows), static_cast<std::size_t>(bytes), stream>>>(
      reinterpret_cast<const float4*>(sorted_.data()), starts_.data(), padded_.data());
  check_launch("gridding sectors");
  constexpr int kThreads = 256;
  combine_kernel<<<2 * kPlane / kThreads, kThreads, 0, stream>>>(padded_.data(), grid_.data());
  check_launch("combining sectors");
}

std::vector<numerics::cfloat> Ladder::grid(Rung rung) {
  const numerics::HostArray<float> host = context_.download<float>(grid_.cview());
  std::vector<numerics::cfloat> result(kPlane);
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = has_planes(rung) ? numerics::cfloat(host.data()[i], host.data()[kPlane + i])
                                 : numerics::cfloat(host.data()[2 * i], host.data()[2 * i + 1]);
  return result;
}

}  // namespace echotrain::seed
