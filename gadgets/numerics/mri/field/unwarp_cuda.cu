#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/mri/field/unwarp_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// One thread per voxel, for all images.
__global__ void unwarp_kernel(UnwarpJob job, const float2* distorted, const float* shift, float2* corrected) {
  const std::int64_t plane = job.rows * job.columns;
  ECHOTRAIN_GRID_STRIDE(at, job.planes * plane) {
    const std::int64_t x = at % job.columns, y = at / job.columns % job.rows, z = at / plane;
    const UnwarpRow row = unwarp_row(job, shift + z * plane + x, job.columns, y);
    for (std::int64_t b = 0; b < job.batch; ++b) {
      const float2* from = distorted + (b * job.planes + z) * plane + x;
      float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
      for (int i = 0; i < UnwarpJob::kTaps; ++i) {
        const std::int64_t source = row.first + i;
        if (source >= 0 && source < job.rows) sum = sum + row.weights[i] * from[source * job.columns];
      }
      corrected[b * job.planes * plane + at] = sum;
    }
  }
}

}  // namespace

void unwarp(Context& context, const UnwarpJob& job, const cfloat* distorted, const float* shift, cfloat* corrected) {
  unwarp_kernel<<<blocks_for(job.planes * job.rows * job.columns), kThreads, 0, stream_of(context)>>>(
      job, device_view(distorted), shift, device_view(corrected));
  check_launch("unwarp");
}

}  // namespace echotrain::numerics::cuda
