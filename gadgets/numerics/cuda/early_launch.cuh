// Kernels that begin before the one before them has ended (programmatic dependent launch): getting ready then costs no
// time. Such a kernel calls wait_for_kernel_before() in all its threads before it reads what others write or writes
// what others read. On devices before compute capability 9.0, and where the program was built for such devices only,
// they are launched as all are.
#pragma once

#include <cuda_runtime.h>

#include "gadgets/numerics/core/cuda_support.cuh"

namespace echotrain::numerics::cuda {

/// Returns once the kernel before has ended, and with it all before that one.
__device__ inline void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// The kernel after may begin once all blocks have called it. Without this, it begins when this one ends.
__device__ inline void let_kernel_after_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Whether a device of this compute capability runs code that waits: not where what the program was built for is older,
/// and the driver compiles that for the device.
constexpr bool waits_are_built(int major) {
  for (const int built : {__CUDA_ARCH_LIST__})
    if (built >= 900 && built < 100 * (major + 1)) return true;
  return false;
}

struct EarlyLaunch {
  dim3 blocks, threads;
  int shared_bytes = 0;  ///< dynamic
  unsigned cluster = 1;  ///< blocks of a cluster, along x
};

/// Launches kernel(argument...). ResourceError if that fails.
template <class... Parameters>
void launch_early(const char* what, void (*kernel)(Parameters...), const EarlyLaunch& shape, cudaStream_t stream,
                  const Parameters&... arguments) {
  int device = 0, major = 0;
  check(cudaGetDevice(&device), what);
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), what);
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (waits_are_built(major)) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = shape.cluster;
    attributes[count].val.clusterDim.y = attributes[count].val.clusterDim.z = 1;
    ++count;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.blocks;
  config.blockDim = shape.threads;
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), what);
}

}  // namespace echotrain::numerics::cuda
