// Probes for devices: the functions of core/device.h that need no Device.
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/device.h"

namespace echotrain::numerics::cuda {

int device_count() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "counting devices");
  return count;
}

int try_device(int device) {
  void* memory = nullptr;
  cudaError_t status = cudaSetDevice(device);
  if (status == cudaSuccess) status = cudaMalloc(&memory, 256);
  if (status == cudaSuccess) status = cudaMemset(memory, 0, 256);
  if (status == cudaSuccess) status = cudaDeviceSynchronize();
  if (memory != nullptr) cudaFree(memory);
  cudaGetLastError();
  return static_cast<int>(status);
}

bool probe(std::string& reason) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    cudaGetLastError();
    reason = "no CUDA driver is installed";
    return false;
  }
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();
    reason = status == cudaSuccess || status == cudaErrorNoDevice
                 ? "there is no CUDA device"
                 : std::string("the CUDA driver reports: ") + cudaGetErrorString(status);
    return false;
  }
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
  if (major < 8) {
    cudaGetLastError();
    reason = "the CUDA device is too old: compute capability " + std::to_string(major) + "." + std::to_string(minor) +
             ", needed 8.0";
    return false;
  }
  void* memory = nullptr;
  status = cudaSetDevice(0);
  if (status == cudaSuccess) status = cudaMalloc(&memory, 256);
  if (status == cudaSuccess) status = cudaMemset(memory, 0, 256);
  if (memory != nullptr) cudaFree(memory);
  if (status != cudaSuccess) {
    cudaGetLastError();
    reason = std::string("the CUDA device cannot be used: ") + cudaGetErrorString(status);
    return false;
  }
  return true;
}

std::string describe() {
  cudaDeviceProp properties{};
  int version = 0;
  check(cudaGetDeviceProperties(&properties, 0), "asking for the device's name");
  check(cudaRuntimeGetVersion(&version), "asking for the version");
  return std::string(properties.name) + " (CUDA " + std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10) + ")";
}

}  // namespace echotrain::numerics::cuda
