#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/mri/parallel/parallel_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kRowsOfThread = 4;  // rows that share the kernels that a thread reads

/// One thread per weight in each of kRowsOfThread rows, columns fastest: threads of a warp share phases, and their
/// kernels lie together.
__global__ void __launch_bounds__(kThreads)
    unmixing_kernel(UnmixingWork w, const float2* along_y, const float2* along_z, const float2* maps, float2* to) {
  const std::int64_t voxels = w.nz * w.ny * w.nx, per_source = w.coils * w.coils * 2 * kHybridLanes;
  const std::int64_t down = (w.ny + kRowsOfThread - 1) / kRowsOfThread;
  ECHOTRAIN_GRID_STRIDE(i, w.coils * w.nz * down * w.nx) {
    const std::int64_t x = i % w.nx, y = i / w.nx % down * kRowsOfThread;
    const std::int64_t z = i / w.nx / down % w.nz, from = i / w.nx / down / w.nz;
    const float* kernel =
        w.kernels + x / kHybridLanes * w.all_sources * per_source + from * 2 * kHybridLanes + x % kHybridLanes;
    std::int64_t row[kRowsOfThread];  // the last row is repeated beyond the end
    for (int r = 0; r < kRowsOfThread; ++r) row[r] = y + r < w.ny ? y + r : w.ny - 1;
    const float2* map = maps + z * w.ny * w.nx + x;
    float2 sum[kRowsOfThread] = {};
    for (std::int64_t c = 0; c < w.coils; ++c, map += voxels, kernel += w.coils * 2 * kHybridLanes) {
      float2 g[kRowsOfThread];
      for (float2& of_row : g) of_row = make_float2(c == from ? 1.0f : 0.0f, 0.0f);
      const float* at = kernel;
      for (std::int64_t s = 0; s < w.sources; ++s, at += per_source) {
        const float2 weight = along_z[s * w.nz + z] * make_float2(at[0], at[kHybridLanes]);
        for (int r = 0; r < kRowsOfThread; ++r) g[r] = g[r] + along_y[s * w.ny + row[r]] * weight;
      }
      for (int r = 0; r < kRowsOfThread; ++r) sum[r] = sum[r] + map[row[r] * w.nx] * conjugate(g[r]);
    }
    for (int r = 0; r < kRowsOfThread; ++r)
      if (y + r < w.ny) to[from * voxels + (z * w.ny + y + r) * w.nx + x] = sum[r];
  }
}

}  // namespace

void unmixing(Context& context, const UnmixingWork& work) {
  const std::int64_t threads = work.coils * work.nz * ((work.ny + kRowsOfThread - 1) / kRowsOfThread) * work.nx;
  unmixing_kernel<<<blocks_for(threads), kThreads, 0, stream_of(context)>>>(
      work, device_view(work.along_y), device_view(work.along_z), device_view(work.maps), device_view(work.to));
  check_launch("unmixing");
}

}  // namespace echotrain::numerics::cuda
