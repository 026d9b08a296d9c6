#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/inverse/proximal/vectors_ops.h"

namespace echotrain::numerics::cuda {
namespace {

__global__ void weighted_sum_kernel(VectorSum sum, float2* to) {
  ECHOTRAIN_GRID_STRIDE(i, sum.n) {
    float2 all = make_float2(0.0f, 0.0f);
    for (int t = 0; t < 3; ++t)
      if (sum.of[t] != nullptr) all = all + sum.factor[t] * reinterpret_cast<const float2*>(sum.of[t])[i];
    to[i] = all;
  }
}

/// The root of the sum of a value's squares over all parts.
__device__ float size_of(const float2* c, std::int64_t parts, std::int64_t n, std::int64_t i) {
  float squares = 0;
  for (std::int64_t p = 0; p < parts; ++p) {
    const float2 value = c[p * n + i];
    squares += value.x * value.x + value.y * value.y;
  }
  return sqrtf(squares);
}

__global__ void shrink_kernel(float threshold, bool keep, std::int64_t parts, std::int64_t n, float2* c) {
  ECHOTRAIN_GRID_STRIDE(i, n) {
    const float factor = part_of_size(threshold, keep, size_of(c, parts, n, i));
    for (std::int64_t p = 0; p < parts; ++p) c[p * n + i] = factor * c[p * n + i];
  }
}

__global__ void magnitudes_kernel(std::int64_t parts, std::int64_t n, const float2* c, float* to) {
  ECHOTRAIN_GRID_STRIDE(i, n) to[i] = size_of(c, parts, n, i);
}

}  // namespace

void weighted_sum(Context& context, const VectorSum& sum, cfloat* to) {
  weighted_sum_kernel<<<blocks_for(sum.n), kThreads, 0, stream_of(context)>>>(sum, device_view(to));
  check_launch("weighted_sum");
}

void shrink(Context& context, float threshold, bool keep, std::int64_t parts, std::int64_t n, cfloat* c) {
  shrink_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(threshold, keep, parts, n, device_view(c));
  check_launch("shrink");
}

void magnitudes(Context& context, std::int64_t parts, std::int64_t n, const cfloat* c, float* to) {
  magnitudes_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(parts, n, device_view(c), to);
  check_launch("magnitudes");
}

}  // namespace echotrain::numerics::cuda
