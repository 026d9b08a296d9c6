#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/inverse/nlinv/frame_median_ops.h"

namespace echotrain::numerics::cuda {
namespace {

__global__ void median_kernel(MedianFrames frames, std::int64_t n, float2* to) {
  ECHOTRAIN_GRID_STRIDE(i, n) {
    float values[kMostMedianFrames];
    for (int f = 0; f < frames.count; ++f) {
      const float2 value = reinterpret_cast<const float2*>(frames.frames[f])[i];
      const float size = hypotf(value.x, value.y);
      values[f] = isfinite(size) ? size : INFINITY;
    }
    to[i] = make_float2(median_of(values, frames.count), 0.0f);
  }
}

}  // namespace

void frame_median(Context& context, const MedianFrames& frames, std::int64_t n, cfloat* to) {
  median_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(frames, n, device_view(to));
  check_launch("frame_median");
}

}  // namespace echotrain::numerics::cuda
