#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/mri/epi/line_changes_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// One thread per element of `to`: neighbours read neighbouring weights, and the same sample.
__global__ void combine_samples_kernel(const std::int32_t* sets, const float* weights, const float2* from,
                                       std::int64_t coils, std::int64_t samples, std::int64_t n, std::int64_t size,
                                       float2* to) {
  ECHOTRAIN_GRID_STRIDE(i, size) {
    const std::int64_t row = i / n;
    const float* column = weights + sets[row / coils] * samples * n + i % n;
    const float2* line = from + row * samples;
    float2 sum = make_float2(0.0f, 0.0f);
    for (std::int64_t s = 0; s < samples; ++s) {
      const float w = column[s * n];
      const float2 value = line[s];
      sum.x += w * value.x;
      sum.y += w * value.y;
    }
    to[i] = sum;
  }
}

}  // namespace

void combine_samples(Context& context, HostView<const std::int32_t> sets, DeviceView<const float> weights,
                     DeviceView<const cfloat> from, DeviceView<cfloat> to) {
  const Array<std::int32_t> copied = context.upload<std::int32_t>(sets);
  combine_samples_kernel<<<blocks_for(to.size()), kThreads, 0, stream_of(context)>>>(
      copied.data(), weights.data(), device_view(from.data()), from.shape()[1], from.shape()[2], to.shape()[2],
      to.size(), device_view(to.data()));
  check_launch("combine_samples");
}

}  // namespace echotrain::numerics::cuda
