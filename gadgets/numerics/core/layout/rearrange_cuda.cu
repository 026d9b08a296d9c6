#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/layout/rearrange_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// One thread per voxel of `to`, so that stores are contiguous.
__global__ void rearrange_kernel(const float2* from, std::int64_t coil, std::int64_t start, std::int64_t sz,
                                 std::int64_t sy, std::int64_t sx, std::int64_t nz, std::int64_t ny, std::int64_t nx,
                                 std::int64_t n, float2* to) {
  ECHOTRAIN_GRID_STRIDE(i, n) {
    const std::int64_t x = i % nx, y = i / nx % ny, z = i / nx / ny % nz, c = i / nx / ny / nz;
    to[i] = from[c * coil + start + z * sz + y * sy + x * sx];
  }
}

}  // namespace

void rearrange(Context& context, DeviceView<const cfloat> from, const Strides& strides, DeviceView<cfloat> to) {
  const Shape& t = to.shape();
  rearrange_kernel<<<blocks_for(to.size()), kThreads, 0, stream_of(context)>>>(
      device_view(from.data()), strides.coil, strides.start, strides.stride[0], strides.stride[1], strides.stride[2],
      t[1], t[2], t[3], to.size(), device_view(to.data()));
  check_launch("rearrange");
}

}  // namespace echotrain::numerics::cuda
