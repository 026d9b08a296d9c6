#include "gadgets/numerics/core/reduce/reductions_cuda.cuh"
#include "gadgets/numerics/mri/density/density_pipe_menon_ops.h"

namespace echotrain::numerics::cuda {
namespace {

static_assert(PipeMenonStep::kBlocks == kThreads, "one thread of the last block adds one partial sum");

__global__ void start_kernel(const float* start, std::int64_t samples, float* weights, float2* ones) {
  ECHOTRAIN_GRID_STRIDE(s, samples) {
    weights[s] = start == nullptr ? 1.0f : start[s] > 0 && isfinite(start[s]) ? start[s] : 0.0f;
    ones[s] = make_float2(1.0f, 0.0f);
  }
}

__global__ void sums_kernel(PipeMenonStep step) {
  Sums<3> sums;
  ECHOTRAIN_GRID_STRIDE(s, step.samples) {
    const double w = step.weights[s], d = step.convolved[s].real();
    sums.of[0] += w;
    sums.of[1] += w * d;
    sums.of[2] += w * d * d;
  }
  sums = block_join(sums);
  if (threadIdx.x == 0)
    for (int i = 0; i < 3; ++i) step.partial[3 * blockIdx.x + i] = sums.of[i];
}

__global__ void state_kernel(PipeMenonStep step) {
  Sums<3> sums;
  for (int i = 0; i < 3; ++i) sums.of[i] = step.partial[3 * threadIdx.x + i];
  sums = block_join(sums);
  if (threadIdx.x == 0) step.state->take(sums.of[0], sums.of[1], sums.of[2], step.residuals);
}

__global__ void next_kernel(PipeMenonStep step) {
  const bool improved = step.state->improved;
  ECHOTRAIN_GRID_STRIDE(s, step.samples) {
    const float w = step.weights[s];
    if (improved) step.best[s] = w;
    step.weights[s] = pipe_menon_next(w, step.convolved[s].real());
  }
}

__global__ void scale_kernel(float factor, std::int64_t samples, float* weights) {
  ECHOTRAIN_GRID_STRIDE(s, samples) weights[s] *= factor;
}

}  // namespace

void pipe_menon_start(Context& context, const float* start, std::int64_t samples, float* weights, cfloat* ones) {
  start_kernel<<<blocks_for(samples), kThreads, 0, stream_of(context)>>>(start, samples, weights, device_view(ones));
  check_launch("pipe_menon_start");
}

void pipe_menon_step(Context& context, const PipeMenonStep& step) {
  const cudaStream_t stream = stream_of(context);
  sums_kernel<<<PipeMenonStep::kBlocks, kThreads, 0, stream>>>(step);
  state_kernel<<<1, kThreads, 0, stream>>>(step);
  next_kernel<<<blocks_for(step.samples), kThreads, 0, stream>>>(step);
  check_launch("pipe_menon_step");
}

void pipe_menon_scale(Context& context, float factor, std::int64_t samples, float* weights) {
  scale_kernel<<<blocks_for(samples), kThreads, 0, stream_of(context)>>>(factor, samples, weights);
  check_launch("pipe_menon_scale");
}

}  // namespace echotrain::numerics::cuda
