// Kernels that begin before the one before them has ended (programmatic dependent launch), so that their setup costs no
// time. Such a kernel calls wait_for_kernel_before() in all its threads before it reads what others write or writes
// what others read. On devices before compute capability 9.0, and where the program was built for such devices only,
// they are launched in the ordinary way.
#pragma once

#include <cuda_runtime.h>

#include "gadgets/numerics/core/cuda_support.cuh"

namespace echotrain::numerics::cuda {

/// Returns once the kernel before it, and with it all earlier ones, has ended.
__device__ inline void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// Lets the next kernel begin once all blocks have called this. Without it, the next kernel begins when this one ends.
__device__ inline void let_kernel_after_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// True if a device of this compute capability runs code that waits. It does not where the program was built for an
/// older one, and the driver compiles that for the device.
constexpr bool waits_are_built(int major) {
  for (const int built : {__CUDA_ARCH_LIST__})
    if (built >= 900 && built < 100 * (major + 1)) return true;
  return false;
}

struct ProgrammaticLaunch {
  dim3 blocks, threads;
  int shared_bytes = 0;  ///< dynamic shared memory
  unsigned cluster = 1;  ///< blocks of a cluster, along x
};

/// Launches kernel(argument...). Throws ResourceError if that fails.
template <class... Parameters>
void launch_programmatic(const char* what, void (*kernel)(Parameters...), const ProgrammaticLaunch& shape,
                         cudaStream_t stream, const Parameters&... arguments) {
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
