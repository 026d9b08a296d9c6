#include <cstdint>
#include <new>

#include "gadgets/numerics/core/cuda/device_pool.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/device.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::size_t kMostKeptDevice = 96u << 20;  // bytes that a context keeps for reuse

}  // namespace

DevicePool::DevicePool(int device, cudaStream_t stream) : device_(device), stream_(stream) {
  check(cudaDeviceGetDefaultMemPool(&pool_, device_), "finding the memory pool");
  std::uint64_t keep_all = UINT64_MAX;
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_all), "setting up the memory pool");
}

void* DevicePool::take(std::size_t bytes) {
  if (void* kept = take_kept(bytes)) return kept;
  void* memory = nullptr;
  cudaError_t status = cudaMallocAsync(&memory, block_size(bytes), stream_);
  if (status != cudaSuccess) {
    // The pool may hold free memory in the wrong pieces, or memory that is about to become free.
    cudaGetLastError();
    free_kept();
    check(cudaStreamSynchronize(stream_), "waiting for the device");
    check(cudaMemPoolTrimTo(pool_, 0), "trimming the memory pool");
    status = cudaMallocAsync(&memory, block_size(bytes), stream_);
  }
  if (status != cudaSuccess) {
    if (fault_of(static_cast<int>(status)) != CudaFault::memory) check(status, "allocating memory");
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();
    throw ResourceError("the device cannot give " + bytes_text(bytes) + " (" + bytes_text(free) + " of " +
                        bytes_text(total) + " free): " + cudaGetErrorString(status));
  }
  return memory;
}

/// Returns a kept block of this size, or nullptr. Only work that is on the stream already may still use the block.
/// Throws ResourceError where there is none and the stream is being recorded.
void* DevicePool::take_kept(std::size_t bytes) {
  {
    std::lock_guard lock(mutex_);
    // The block released last is the likeliest to be in the device's cache.
    for (std::size_t i = kept_.size(); i-- > 0;) {
      if (kept_[i].size != block_size(bytes)) continue;
      void* memory = kept_[i].memory;
      kept_bytes_ -= kept_[i].size;
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
      return memory;
    }
    if (keepers_ == 0) return nullptr;
  }
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_, &status), "asking whether a stream is recorded");
  if (status != cudaStreamCaptureStatusNone) throw ResourceError("work that needs new memory cannot be recorded");
  return nullptr;
}

bool DevicePool::keep(void* memory, std::size_t bytes) noexcept {
  const std::size_t size = block_size(bytes);
  std::lock_guard lock(mutex_);
  if (keepers_ == 0 && kept_bytes_ + size > kMostKeptDevice) return false;
  try {
    kept_.push_back({memory, size});
    kept_bytes_ += size;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void DevicePool::free(void* memory) noexcept { cudaFreeAsync(memory, stream_); }

void DevicePool::keep_all(bool on) noexcept {
  {
    std::lock_guard lock(mutex_);
    keepers_ += on ? 1 : -1;
    if (keepers_ > 0 || kept_bytes_ <= kMostKeptDevice) return;
  }
  free_kept();
}

void DevicePool::free_kept() noexcept {
  std::vector<Block> blocks;
  {
    std::lock_guard lock(mutex_);
    blocks.swap(kept_);
    kept_bytes_ = 0;
  }
  int before = device_;
  cudaGetDevice(&before);
  cudaSetDevice(device_);
  for (const Block& block : blocks) free(block.memory);
  if (before != device_) cudaSetDevice(before);
  cudaGetLastError();
}

}  // namespace echotrain::numerics::cuda
