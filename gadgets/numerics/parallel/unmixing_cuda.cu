#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/parallel/unmixing_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// One thread per weight, columns fastest: threads of a warp share phases, and their kernels lie together.
__global__ void unmixing_kernel(UnmixingWork w, const float2* along_y, const float2* along_z, const float2* maps,
                                float2* to) {
  const std::int64_t voxels = w.nz * w.ny * w.nx, per_source = w.coils * w.coils * 2 * kHybridLanes;
  ECHOTRAIN_GRID_STRIDE(i, w.coils * voxels) {
    const std::int64_t v = i % voxels, from = i / voxels;
    const std::int64_t x = v % w.nx, y = v / w.nx % w.ny, z = v / w.nx / w.ny;
    const float* of_block = w.kernels + x / kHybridLanes * w.all_sources * per_source + x % kHybridLanes;
    float2 sum = make_float2(0.0f, 0.0f);
    for (std::int64_t c = 0; c < w.coils; ++c) {
      float2 g = make_float2(c == from ? 1.0f : 0.0f, 0.0f);
      const float* kernel = of_block + (c * w.coils + from) * 2 * kHybridLanes;
      for (std::int64_t s = 0; s < w.sources; ++s, kernel += per_source)
        g = g + along_y[s * w.ny + y] * along_z[s * w.nz + z] * make_float2(kernel[0], kernel[kHybridLanes]);
      sum = sum + maps[c * voxels + v] * conjugate(g);
    }
    to[i] = sum;
  }
}

}  // namespace

void unmixing(Context& context, const UnmixingWork& work) {
  unmixing_kernel<<<blocks_for(work.coils * work.nz * work.ny * work.nx), kThreads, 0, stream_of(context)>>>(
      work, device_view(work.along_y), device_view(work.along_z), device_view(work.maps), device_view(work.to));
  check_launch("unmixing");
}

}  // namespace echotrain::numerics::cuda
