// The exceptions of numerics, and the meaning of CUDA's error numbers (cudaError_t) for code that sees no CUDA header.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace echotrain::numerics {

/// Memory, device or disk is short. One session fails, the others go on.
class ResourceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A context's own bound is reached (ContextOptions::memory_budget), whatever the machine has left.
class OverLimit : public ResourceError {
 public:
  using ResourceError::ResourceError;
};

/// The device has an error that stays until the process ends (CUDA calls it sticky): no session can use the device any
/// more.
class DeviceLost : public ResourceError {
 public:
  using ResourceError::ResourceError;
};

/// A call of the device failed for another reason than memory; later calls may succeed.
class DeviceFailed : public ResourceError {
 public:
  DeviceFailed(const std::string& what, int its_code) : ResourceError(what), code(its_code) {}
  int code;  ///< CUDA's error number (cudaError_t)
};

/// The scan's stop token was set: the result is not wanted any more. This is not an error: catch it before
/// std::exception.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped"; }
};

enum class CudaFault {
  lost,    ///< every further call of this process fails: only a new process can use the device
  memory,  ///< the device, or the machine, has no memory left
  other,   ///< the call failed, perhaps because the device is gone (999, 100, 46)
};

/// "lost" are the errors of which the CUDA Runtime API ("cudaError") says that "the process must be terminated and
/// relaunched", and two of hardware that stays broken (214, 220). Older toolkits lack the names of some.
constexpr CudaFault fault_of(int status) {
  switch (status) {
    case 2:  // cudaErrorMemoryAllocation
      return CudaFault::memory;
    case 214:  // cudaErrorECCUncorrectable
    case 220:  // cudaErrorNvlinkUncorrectable
    case 226:  // cudaErrorContained
    case 700:  // cudaErrorIllegalAddress
    case 702:  // cudaErrorLaunchTimeout
    case 710:  // cudaErrorAssert
    case 714:  // cudaErrorHardwareStackError
    case 715:  // cudaErrorIllegalInstruction
    case 716:  // cudaErrorMisalignedAddress
    case 717:  // cudaErrorInvalidAddressSpace
    case 718:  // cudaErrorInvalidPc
    case 719:  // cudaErrorLaunchFailure
    case 721:  // cudaErrorTensorMemoryLeak
    case 810:  // cudaErrorMpsClientTerminated
    case 911:  // cudaErrorExternalDevice
      return CudaFault::lost;
    default:
      return CudaFault::other;
  }
}

}  // namespace echotrain::numerics
