#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/inverse/solver/regularizer_ops.h"

namespace echotrain::numerics::cuda {
namespace {

__global__ void identity_kernel(float scale, const float2* x, float2* y, std::int64_t n) {
  ECHOTRAIN_GRID_STRIDE(i, n) {
    y[i].x += scale * x[i].x;
    y[i].y += scale * x[i].y;
  }
}

/// The weight of the edge that starts at voxel i along an axis.
__device__ float edge(const Stencil& s, int axis, std::int64_t i) {
  if (s.weights[axis] == nullptr) return s.factor[axis];
  const float w = s.weights[axis][i];
  return s.factor[axis] * (w * w);
}

__global__ void stencil_kernel(Stencil s, float scale, const float2* x, float2* y, std::int64_t batch) {
  const std::int64_t image = s.n[0] * s.n[1] * s.n[2];
  const std::int64_t step[3] = {s.n[1] * s.n[2], s.n[2], 1};
  ECHOTRAIN_GRID_STRIDE(i, batch * image) {
    const std::int64_t v = i % image;
    const std::int64_t at[3] = {v / step[0], v / step[1] % s.n[1], v % s.n[2]};
    const float2 here = x[i];
    float2 sum = make_float2(0.0f, 0.0f);
    for (int a = 0; a < 3; ++a) {
      if (s.factor[a] == 0) continue;
      if (at[a] + 1 < s.n[a]) {
        const float w = edge(s, a, v);
        const float2 next = x[i + step[a]];
        sum.x += w * (here.x - next.x);
        sum.y += w * (here.y - next.y);
      }
      if (at[a] > 0) {
        const float w = edge(s, a, v - step[a]);
        const float2 before = x[i - step[a]];
        sum.x += w * (here.x - before.x);
        sum.y += w * (here.y - before.y);
      }
    }
    y[i].x += scale * sum.x;
    y[i].y += scale * sum.y;
  }
}

__global__ void diagonal_kernel(Stencil s, float* diagonal) {
  const std::int64_t step[3] = {s.n[1] * s.n[2], s.n[2], 1};
  ECHOTRAIN_GRID_STRIDE(v, s.n[0] * s.n[1] * s.n[2]) {
    const std::int64_t at[3] = {v / step[0], v / step[1] % s.n[1], v % s.n[2]};
    float sum = 0;
    for (int a = 0; a < 3; ++a) {
      if (s.factor[a] == 0) continue;
      if (at[a] + 1 < s.n[a]) sum += edge(s, a, v);
      if (at[a] > 0) sum += edge(s, a, v - step[a]);
    }
    diagonal[v] = sum;
  }
}

}  // namespace

void add_identity(Context& context, float scale, const cfloat* x, cfloat* y, std::int64_t n) {
  identity_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(scale, device_view(x), device_view(y), n);
  check_launch("add_identity");
}

void add_stencil(Context& context, const Stencil& stencil, float scale, const cfloat* x, cfloat* y,
                 std::int64_t batch) {
  stencil_kernel<<<blocks_for(batch * volume(stencil.n)), kThreads, 0, stream_of(context)>>>(
      stencil, scale, device_view(x), device_view(y), batch);
  check_launch("add_stencil");
}

void stencil_diagonal(Context& context, const Stencil& stencil, float* diagonal) {
  diagonal_kernel<<<blocks_for(volume(stencil.n)), kThreads, 0, stream_of(context)>>>(stencil, diagonal);
  check_launch("stencil_diagonal");
}

}  // namespace echotrain::numerics::cuda
