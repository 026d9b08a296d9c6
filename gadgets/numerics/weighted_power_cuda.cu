#include "gadgets/numerics/cuda_support.cuh"
#include "gadgets/numerics/weighted_power.h"

namespace echotrain::numerics::cuda {
namespace {

/// One block, whose threads' sums are added in a fixed order.
__global__ void __launch_bounds__(kThreads)
    power_kernel(const float2* samples, const float* weights, std::int64_t n, std::int64_t coils, double* sum) {
  __shared__ double parts[kThreads];
  double part = 0;
  for (std::int64_t i = threadIdx.x; i < n * coils; i += kThreads) {
    const double weight = weights == nullptr ? 1.0 : weights[i / coils];
    const float2 v = samples[i];
    if (weight != 0.0) part += weight * (static_cast<double>(v.x) * v.x + static_cast<double>(v.y) * v.y);
  }
  parts[threadIdx.x] = part;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sum[0] += parts[0];
}

}  // namespace

void add_weighted_power(Context& context, View<const cfloat> samples, View<const float> weights, View<double> sum) {
  power_kernel<<<1, kThreads, 0, stream_of(context)>>>(device_view(samples.data()),
                                                       weights.size() == 0 ? nullptr : weights.data(),
                                                       samples.shape()[0], samples.shape()[1], sum.data());
  check_launch("weighted power");
}

}  // namespace echotrain::numerics::cuda
