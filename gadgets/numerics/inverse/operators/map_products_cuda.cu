#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/inverse/operators/map_products_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// One thread per voxel of a coil's image.
__global__ void spread_kernel(const float2* maps, const float2* x, float2* of_coils, MapProducts p) {
  ECHOTRAIN_GRID_STRIDE(at, p.frames * p.coils * p.voxels) {
    const std::int64_t v = at % p.voxels, c = at / p.voxels % p.coils, f = at / p.voxels / p.coils;
    float2 sum = make_float2(0.0f, 0.0f);
    for (std::int64_t i = 0; i < p.sets; ++i)
      sum = sum + maps[(i * p.coils + c) * p.voxels + v] * x[(f * p.sets + i) * p.voxels + v];
    of_coils[at] = sum;
  }
}

/// One thread per voxel of an image.
__global__ void gather_kernel(const float2* maps, const float2* of_coils, float2* x, MapProducts p) {
  ECHOTRAIN_GRID_STRIDE(at, p.frames * p.sets * p.voxels) {
    const std::int64_t v = at % p.voxels, i = at / p.voxels % p.sets, f = at / p.voxels / p.sets;
    float2 sum = make_float2(0.0f, 0.0f);
    for (std::int64_t c = 0; c < p.coils; ++c)
      sum = sum + conjugate(maps[(i * p.coils + c) * p.voxels + v]) * of_coils[(f * p.coils + c) * p.voxels + v];
    x[at] = sum;
  }
}

/// One thread per voxel.
__global__ void join_kernel(const float2* x, std::int64_t sets, std::int64_t voxels, float2* joined) {
  ECHOTRAIN_GRID_STRIDE(v, voxels) {
    float power = 0;
    for (std::int64_t i = 0; i < sets; ++i) {
      const float2 value = x[i * voxels + v];
      power += value.x * value.x + value.y * value.y;
    }
    const float first = hypotf(x[v].x, x[v].y), size = sqrtf(power);
    joined[v] = first > 0 ? size / first * x[v] : make_float2(size, 0.0f);
  }
}

}  // namespace

void spread_to_coils(Context& context, const MapProducts& p, const cfloat* x, cfloat* of_coils) {
  spread_kernel<<<blocks_for(p.frames * p.coils * p.voxels), kThreads, 0, stream_of(context)>>>(
      device_view(p.maps), device_view(x), device_view(of_coils), p);
  check_launch("spread_to_coils");
}

void gather_from_coils(Context& context, const MapProducts& p, const cfloat* of_coils, cfloat* x) {
  gather_kernel<<<blocks_for(p.frames * p.sets * p.voxels), kThreads, 0, stream_of(context)>>>(
      device_view(p.maps), device_view(of_coils), device_view(x), p);
  check_launch("gather_from_coils");
}

void join_sets(Context& context, const cfloat* x, std::int64_t sets, std::int64_t voxels, cfloat* joined) {
  join_kernel<<<blocks_for(voxels), kThreads, 0, stream_of(context)>>>(device_view(x), sets, voxels,
                                                                       device_view(joined));
  check_launch("join_sets");
}

}  // namespace echotrain::numerics::cuda
