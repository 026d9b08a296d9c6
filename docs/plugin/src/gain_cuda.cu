#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gain_ops.h"

namespace example::cuda {
namespace {

using namespace echotrain::numerics::cuda;

__global__ void amplify_kernel(const float2* from, std::int64_t n, float factor, float2* to) {
  ECHOTRAIN_GRID_STRIDE(i, n) to[i] = factor * from[i];
}

}  // namespace

void amplify(Context& context, View<const cfloat> from, float factor, View<cfloat> to) {
  amplify_kernel<<<blocks_for(from.size()), kThreads, 0, stream_of(context)>>>(device_view(from.data()), from.size(),
                                                                               factor, device_view(to.data()));
  check_launch("amplify");
}

}  // namespace example::cuda
