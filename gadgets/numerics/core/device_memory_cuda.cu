#include <array>
#include <atomic>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/device.h"

namespace echotrain::numerics::cuda {

namespace {

constexpr int kMostDevices = 64;
std::atomic<std::uint64_t> used_devices = 0;  // one bit per device

bool measure(DeviceMemory& memory) {
  if (cudaSetDevice(memory.device) != cudaSuccess) return false;
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return false;
  std::array<char, 32> pci{};
  if (cudaDeviceGetPCIBusId(pci.data(), static_cast<int>(pci.size()), memory.device) == cudaSuccess)
    memory.pci = pci.data();
  memory.total = total;
  memory.used = total - free;
  cudaMemPool_t pool = nullptr;
  return cudaDeviceGetDefaultMemPool(&pool, memory.device) == cudaSuccess &&
         cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &memory.pool_reserved) == cudaSuccess &&
         cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &memory.pool_used) == cudaSuccess;
}

}  // namespace

void note_use(int device) {
  if (device < kMostDevices) used_devices |= std::uint64_t{1} << device;
}

std::vector<DeviceMemory> device_memory() {
  std::vector<DeviceMemory> all;
  const std::uint64_t used = used_devices;
  if (used == 0) return all;
  int before = 0;
  const bool restore = cudaGetDevice(&before) == cudaSuccess;
  for (int device = 0; device < kMostDevices; ++device) {
    DeviceMemory memory;
    memory.device = device;
    if ((used >> device & 1) != 0 && measure(memory)) all.push_back(memory);
  }
  if (restore) cudaSetDevice(before);
  cudaGetLastError();
  return all;
}

}  // namespace echotrain::numerics::cuda
