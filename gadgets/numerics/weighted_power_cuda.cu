#include <algorithm>

#include "gadgets/numerics/cuda_support.cuh"
#include "gadgets/numerics/weighted_power.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::int64_t kMostBlocks = 512;
constexpr std::int64_t kValuesOfThread = 8;

/// Adds up `value` over the block, in a fixed order; the sum is right in thread 0.
__device__ double block_sum(double value) {
  __shared__ double parts[kThreads];
  parts[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  return parts[0];
}

__global__ void __launch_bounds__(kThreads)
    power_kernel(const float2* samples, const float* weights, std::int64_t n, std::int64_t coils, double* partial) {
  double part = 0;
  ECHOTRAIN_GRID_STRIDE(i, n * coils) {
    const double weight = weights == nullptr ? 1.0 : weights[i / coils];
    const float2 v = samples[i];
    if (weight != 0.0) part += weight * (static_cast<double>(v.x) * v.x + static_cast<double>(v.y) * v.y);
  }
  part = block_sum(part);
  if (threadIdx.x == 0) partial[blockIdx.x] = part;
}

/// One block.
__global__ void __launch_bounds__(kThreads) sum_kernel(const double* partial, std::int64_t blocks, double* sum) {
  double part = 0;
  for (std::int64_t b = threadIdx.x; b < blocks; b += kThreads) part += partial[b];
  part = block_sum(part);
  if (threadIdx.x == 0) sum[0] += part;
}

}  // namespace

void add_weighted_power(Context& context, View<const cfloat> samples, View<const float> weights, View<double> sum) {
  const cudaStream_t stream = stream_of(context);
  const std::int64_t n = samples.shape()[0], coils = samples.shape()[1];
  // As many blocks for as many values, whatever the device.
  const std::int64_t blocks = std::clamp<std::int64_t>(n * coils / (kThreads * kValuesOfThread), 1, kMostBlocks);
  Array<double> partial = context.allocate<double>({blocks});
  power_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      device_view(samples.data()), weights.size() == 0 ? nullptr : weights.data(), n, coils, partial.data());
  sum_kernel<<<1, kThreads, 0, stream>>>(partial.data(), blocks, sum.data());
  check_launch("weighted power");
}

}  // namespace echotrain::numerics::cuda
