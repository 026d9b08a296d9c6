#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/mri/coils/coil_regions_ops.h"

namespace echotrain::numerics::cuda {
namespace {

__global__ void cut_region_kernel(CoilRegion region, const float2* from, const double* factors, float2* to) {
  const std::int64_t nz = region.n[0], ny = region.n[1], nx = region.n[2];
  ECHOTRAIN_GRID_STRIDE(i, region.coils * nz * ny * nx) {
    const std::int64_t x = i % nx, y = i / nx % ny, z = i / nx / ny % nz;
    const double factor = factors[z] * factors[nz + y] * factors[nz + ny + x];
    to[i] = static_cast<float>(factor) * from[region.source(i / nx / ny / nz, z, y, x)];
  }
}

/// One thread per voxel.
__global__ void unit_maps_kernel(CoilRegion region, const float2* from, float2* to) {
  const std::int64_t ny = region.n[1], nx = region.n[2], voxels = region.n[0] * ny * nx;
  const std::int64_t step = region.extents[0] * region.extents[1] * region.extents[2];
  ECHOTRAIN_GRID_STRIDE(v, voxels) {
    const float2* map = from + region.source(0, v / nx / ny, v / nx % ny, v % nx);
    float power = 0;
    for (std::int64_t c = 0; c < region.coils; ++c) {
      const float2 value = map[c * step];
      power += value.x * value.x + value.y * value.y;
    }
    const float factor = power > 1e-12f ? 1 / sqrtf(power) : 0.0f;
    for (std::int64_t c = 0; c < region.coils; ++c) to[c * voxels + v] = factor * map[c * step];
  }
}

}  // namespace

void cut_region(Context& context, const CoilRegion& region, const double* factors) {
  cut_region_kernel<<<blocks_for(region.coils * volume(region.n)), kThreads, 0, stream_of(context)>>>(
      region, device_view(region.from), factors, device_view(region.to));
  check_launch("cut_region");
}

void unit_maps(Context& context, const CoilRegion& region) {
  unit_maps_kernel<<<blocks_for(volume(region.n)), kThreads, 0, stream_of(context)>>>(region, device_view(region.from),
                                                                                      device_view(region.to));
  check_launch("unit_maps");
}

}  // namespace echotrain::numerics::cuda
