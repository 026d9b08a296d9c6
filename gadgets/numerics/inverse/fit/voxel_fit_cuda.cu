#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/inverse/fit/one_voxel.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kFew = 16;  // images whose values take a quarter of a thread's memory
constexpr int kFitThreads = 128;

/// One thread per voxel. Its arrays lie in local memory, which is the driver's, one area of a device for all sessions:
/// for kMost images 1,536 B for each thread that the device can run at once, 396 MiB on an H200 (132 x 2,048 threads).
template <class Form, int kMost>
__global__ void __launch_bounds__(kFitThreads) fit_kernel(const VoxelFitWork w) {
  const std::int64_t v = static_cast<std::int64_t>(blockIdx.x) * kFitThreads + threadIdx.x;
  if (v < w.voxels) voxel_fit::fit_lanes<Form, kMost, float>(w, v, 1);
}

}  // namespace

void fit_voxels(Context& context, const VoxelFitWork& work) {
  const auto blocks = static_cast<unsigned>((work.voxels + kFitThreads - 1) / kFitThreads);
  voxel_fit::with_form(work, [&](auto form) {
    using Form = decltype(form);
    if (work.count <= kFew)
      fit_kernel<Form, kFew><<<blocks, kFitThreads, 0, stream_of(context)>>>(work);
    else
      fit_kernel<Form, VoxelFitWork::kMost><<<blocks, kFitThreads, 0, stream_of(context)>>>(work);
  });
  check_launch("fit_voxels");
}

}  // namespace echotrain::numerics::cuda
