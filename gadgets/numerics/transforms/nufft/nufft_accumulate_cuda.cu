// Gridding by atomic additions, straight to the grid: for few samples at a time, which do not fill tiles.
#include <algorithm>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/transforms/nufft/nufft_plan.h"
#include "gadgets/numerics/transforms/nufft/nufft_window_cuda.cuh"

namespace echotrain::numerics::cuda {
namespace {

constexpr unsigned kMostGridY = 65535;

__device__ void add_atomically(float2* to, float2 value) {
#if __CUDA_ARCH__ >= 900
  atomicAdd(to, value);
#else
  atomicAdd(&to->x, value.x);
  atomicAdd(&to->y, value.y);
#endif
}

constexpr int kWarp = 32, kWarpsOfBlock = 4;
constexpr std::int64_t kCoilsOfWarp = 8;

/// A warp per sample and group of coils; its lanes share the footprint's points. blockDim = (kWarp, kWarpsOfBlock);
/// gridDim = (ceil(samples / kWarpsOfBlock), ceil(coils / kCoilsOfWarp) at most kMostGridY).
__global__ void accumulate_kernel(Tiling t, Windows windows, const Footprint* footprints, std::int64_t n,
                                  const float2* samples, const float* density, float sign, std::int64_t coils,
                                  float2* grid) {
  const std::int64_t s = static_cast<std::int64_t>(blockIdx.x) * kWarpsOfBlock + threadIdx.y;
  if (s >= n) return;
  const Footprint f = footprints[s];
  if (f.start[0] == Footprint::kNowhere) return;
  const float factor = density != nullptr ? sign * density[s] : sign;
  const std::int64_t grid_size = static_cast<std::int64_t>(t.grid[0]) * t.grid[1] * t.grid[2];
  const int rows = t.dims > 1 ? t.width : 1, planes = t.dims > 2 ? t.width : 1, points = planes * rows * t.width;
  for (int p = threadIdx.x; p < points; p += kWarp) {
    const int x = p % t.width, y = p / t.width % rows, z = p / (t.width * rows);
    std::int32_t gx = f.start[t.dims - 1] + x, gy = t.dims > 1 ? f.start[t.dims - 2] + y : 0,
                 gz = t.dims > 2 ? f.start[0] + z : 0;
    float weight = factor * window_at<>(windows.axis[2], t.width, static_cast<float>(x), f.shift[t.dims - 1]);
    if (t.dims > 1) weight *= window_at<>(windows.axis[1], t.width, static_cast<float>(y), f.shift[t.dims - 2]);
    if (t.dims > 2) weight *= window_at<>(windows.axis[0], t.width, static_cast<float>(z), f.shift[0]);
    if (gx >= t.grid[2]) gx -= t.grid[2];
    if (gy >= t.grid[1]) gy -= t.grid[1];
    if (gz >= t.grid[0]) gz -= t.grid[0];
    float2* to = grid + (static_cast<std::int64_t>(gz) * t.grid[1] + gy) * t.grid[2] + gx;
    for (std::int64_t first = blockIdx.y * kCoilsOfWarp; first < coils; first += gridDim.y * kCoilsOfWarp)
      for (std::int64_t c = first; c < min(coils, first + kCoilsOfWarp); ++c) {
        const float2 v = samples[s * coils + c];
        add_atomically(to + c * grid_size, make_float2(weight * v.x, weight * v.y));
      }
  }
}

}  // namespace

void accumulate(Context& context, const NufftPlan::Impl& plan, const AccumulateArguments& arguments) {
  const Tiling& t = plan.tiling;
  const std::int64_t n = arguments.samples_count;
  Windows windows;
  std::copy_n(plan.windows, 3, windows.axis);
  const dim3 blocks(
      static_cast<unsigned>((n + kWarpsOfBlock - 1) / kWarpsOfBlock),
      static_cast<unsigned>(std::min<std::int64_t>((arguments.coils + kCoilsOfWarp - 1) / kCoilsOfWarp, kMostGridY)));
  accumulate_kernel<<<blocks, dim3(kWarp, kWarpsOfBlock), 0, stream_of(context)>>>(
      t, windows, plan.footprints.data() + arguments.first, n, device_view(arguments.samples), arguments.weights,
      arguments.sign, arguments.coils, device_view(arguments.grid));
  check_launch("accumulate");
}

}  // namespace echotrain::numerics::cuda
