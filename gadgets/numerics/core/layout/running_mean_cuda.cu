#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/layout/running_mean_ops.h"

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

__global__ void take_frame_kernel(const double* power, double most, float share, FrameLikeness* frame) {
  frame->take(*power, most, share);
}

__global__ void add_like_frame_kernel(const float2* next, const FrameLikeness* frame, float2* mean, std::int64_t n) {
  const float share = frame->share;
  if (!(share > 0)) return;
  ECHOTRAIN_GRID_STRIDE(i, n) {
    const float2 a = next[i], m = share == 1 ? make_float2(0.0f, 0.0f) : mean[i];
    mean[i] = make_float2(moved(m.x, a.x, share), moved(m.y, a.y, share));
  }
}

}  // namespace

void add_to_mean(Context& context, DeviceView<const cfloat> next, float share, DeviceView<cfloat> mean) {
  add_to_mean_kernel<<<blocks_for(next.size()), kThreads, 0, stream_of(context)>>>(
      device_view(next.data()), share, device_view(mean.data()), next.size());
  check_launch("add_to_mean");
}

void take_frame(Context& context, const double* power, double most, float share, FrameLikeness* frame) {
  take_frame_kernel<<<1, 1, 0, stream_of(context)>>>(power, most, share, frame);
  check_launch("take_frame");
}

void add_like_frame(Context& context, DeviceView<const cfloat> next, const FrameLikeness* frame,
                    DeviceView<cfloat> mean) {
  add_like_frame_kernel<<<blocks_for(next.size()), kThreads, 0, stream_of(context)>>>(
      device_view(next.data()), frame, device_view(mean.data()), next.size());
  check_launch("add_like_frame");
}

}  // namespace echotrain::numerics::cuda
