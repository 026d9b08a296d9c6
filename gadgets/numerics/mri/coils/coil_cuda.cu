#include <algorithm>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/mri/coils/coil_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::int64_t kSharedBytes = 48 * 1024;  // shared memory [bytes] that a block gets on every device
constexpr int kWarp = 32;

/// One block per readout and `width` samples: it reads all coils before it writes any.
__global__ void apply_coil_matrix_kernel(const float2* matrix, int coils, std::int64_t samples, int width,
                                         std::int64_t blocks_per_readout, float2* data) {
  extern __shared__ float2 block[];  // [coil, width]
  const std::int64_t first = blockIdx.x % blocks_per_readout * width;
  const int n = static_cast<int>(min(static_cast<long long>(width), static_cast<long long>(samples - first)));
  float2* part = data + blockIdx.x / blocks_per_readout * coils * samples + first;
  for (int i = threadIdx.x; i < coils * width; i += blockDim.x) {
    const int c = i / width, s = i % width;
    block[i] = s < n ? part[c * samples + s] : make_float2(0.0f, 0.0f);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < coils * width; i += blockDim.x) {
    const int c = i / width, s = i % width;
    if (s >= n) continue;
    float2 sum = make_float2(0.0f, 0.0f);
    for (int from = 0; from < coils; ++from) {
      const float2 m = matrix[static_cast<std::int64_t>(c) * coils + from], z = block[from * width + s];
      sum.x += m.x * z.x - m.y * z.y;
      sum.y += m.x * z.y + m.y * z.x;
    }
    part[c * samples + s] = sum;
  }
}

}  // namespace

void apply_coil_matrix(Context& context, DeviceView<const cfloat> matrix, DeviceView<cfloat> data) {
  const std::int64_t readouts = data.shape()[0], coils = data.shape()[1], samples = data.shape()[2];
  const std::int64_t column = coils * static_cast<std::int64_t>(sizeof(float2));
  if (column > kSharedBytes) throw std::invalid_argument("apply_coil_matrix: too many coils for CUDA");
  const std::int64_t width = std::min<std::int64_t>(kWarp, kSharedBytes / column);
  const std::int64_t per_readout = (samples + width - 1) / width, blocks = readouts * per_readout;
  if (blocks > INT32_MAX) throw std::invalid_argument("apply_coil_matrix: too many readouts at once");
  apply_coil_matrix_kernel<<<static_cast<unsigned>(blocks), kThreads, static_cast<std::size_t>(column * width),
                             stream_of(context)>>>(device_view(matrix.data()), static_cast<int>(coils), samples,
                                                   static_cast<int>(width), per_readout, device_view(data.data()));
  check_launch("apply_coil_matrix");
}

}  // namespace echotrain::numerics::cuda
