#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/inverse/sparse/differences_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// One thread per voxel and frame.
__global__ void differences_kernel(SeriesGrid g, std::int64_t size, const float2* x, float2* d) {
  ECHOTRAIN_GRID_STRIDE(i, size) {
    for (int a = 0; a < g.count; ++a) {
      const int axis = g.axes[a];
      d[a * size + i] = x[i + g.next(axis, i / g.stride(axis) % g.n[axis])] - x[i];
    }
  }
}

__global__ void differences_adjoint_kernel(SeriesGrid g, std::int64_t size, const float2* d, float2* x) {
  ECHOTRAIN_GRID_STRIDE(i, size) {
    float2 sum = make_float2(0.0f, 0.0f);
    for (int a = 0; a < g.count; ++a) {
      const int axis = g.axes[a];
      const std::int64_t at = i / g.stride(axis) % g.n[axis];
      const std::int64_t before = g.before(axis, at), next = g.next(axis, at);
      if (before != 0) sum = sum + d[a * size + i + before];
      if (next != 0) sum = sum - d[a * size + i];
    }
    x[i] = sum;
  }
}

}  // namespace

void differences(Context& context, const SeriesGrid& grid, const cfloat* x, cfloat* d) {
  differences_kernel<<<blocks_for(grid.size()), kThreads, 0, stream_of(context)>>>(grid, grid.size(), device_view(x),
                                                                                   device_view(d));
  check_launch("differences");
}

void differences_adjoint(Context& context, const SeriesGrid& grid, const cfloat* d, cfloat* x) {
  differences_adjoint_kernel<<<blocks_for(grid.size()), kThreads, 0, stream_of(context)>>>(
      grid, grid.size(), device_view(d), device_view(x));
  check_launch("differences_adjoint");
}

}  // namespace echotrain::numerics::cuda
