#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/mri/parallel/hybrid_kernels.h"
#include "gadgets/numerics/mri/parallel/parallel_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// One thread per element of a matrix at a column, columns fastest.
__global__ void hybrid_values_kernel(HybridWork w, const float2* weights) {
  const std::int64_t matrix = w.coils * w.coils;
  ECHOTRAIN_GRID_STRIDE(i, w.blocks * w.sources * matrix * kHybridLanes) {
    const std::int64_t lane = i % kHybridLanes, element = i / kHybridLanes;
    const std::int64_t from = element % w.coils, c = element / w.coils % w.coils;
    const std::int64_t source = element / matrix % w.sources, block = element / matrix / w.sources;
    const float2* weight = weights + w.first[source] + c * w.step[source] + from;
    const float* phase = w.phases + block * w.width * 2 * kHybridLanes + lane;
    float2 sum = make_float2(0.0f, 0.0f);
    for (std::int64_t d = 0; d < w.width; ++d, weight += w.coils, phase += 2 * kHybridLanes)
      sum = sum + *weight * make_float2(phase[0], phase[kHybridLanes]);
    float* to = w.to + element * 2 * kHybridLanes + lane;
    to[0] = sum.x;
    to[kHybridLanes] = sum.y;
  }
}

}  // namespace

void hybrid_values(Context& context, const HybridWork& work) {
  const std::int64_t values = work.blocks * work.sources * work.coils * work.coils * kHybridLanes;
  hybrid_values_kernel<<<blocks_for(values), kThreads, 0, stream_of(context)>>>(work, device_view(work.weights));
  check_launch("hybrid_values");
}

}  // namespace echotrain::numerics::cuda
