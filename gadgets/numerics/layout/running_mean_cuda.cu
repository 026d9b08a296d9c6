#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/layout/running_mean_ops.h"

namespace echotrain::numerics::cuda {
namespace {

__device__ float moved(float mean, float next, float share) {
  const float step = next - mean;
  return isfinite(step) ? mean + share * step : mean;
}

__global__ void add_to_mean_kernel(const float2* next, float share, float2* mean, std::int64_t n) {
  ECHOTRAIN_GRID_STRIDE(i, n) {
    const float2 a = next[i], m = mean[i];
    mean[i] = make_float2(moved(m.x, a.x, share), moved(m.y, a.y, share));
  }
}

}  // namespace

void add_to_mean(Context& context, DeviceView<const cfloat> next, float share, DeviceView<cfloat> mean) {
  add_to_mean_kernel<<<blocks_for(next.size()), kThreads, 0, stream_of(context)>>>(
      device_view(next.data()), share, device_view(mean.data()), next.size());
  check_launch("add_to_mean");
}

}  // namespace echotrain::numerics::cuda
