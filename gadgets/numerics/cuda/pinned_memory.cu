#include <new>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/device.h"
#include "gadgets/numerics/cuda/pinned_memory.cuh"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::size_t kMostKeptPinned = 1ull << 30;  // kept for reuse by all contexts

}  // namespace

PinnedMemory::~PinnedMemory() {
  for (auto& [size, blocks] : kept_)
    for (const Block& block : blocks) free_now(block);
  cudaGetLastError();
}

void* PinnedMemory::allocate(std::size_t bytes) {
  const std::size_t size = block_size(bytes);
  {
    std::lock_guard lock(mutex_);
    auto& blocks = kept_[size];
    for (auto block = blocks.begin(); block != blocks.end(); ++block) {
      if (!finished(block->done)) continue;
      void* memory = block->memory;
      events_->give_back(block->done, block->device);
      blocks.erase(block);
      kept_bytes_ -= size;
      return memory;
    }
  }
  void* memory = nullptr;
  cudaError_t status = cudaHostAlloc(&memory, size, cudaHostAllocPortable);
  if (status != cudaSuccess) {
    cudaGetLastError();
    drop_finished();
    status = cudaHostAlloc(&memory, size, cudaHostAllocPortable);
  }
  if (status != cudaSuccess) {
    cudaGetLastError();
    if (is_sticky(status)) check(status, "pinning memory");
    throw ResourceError("the machine has no " + bytes_text(bytes) +
                        " of pinned memory left: " + cudaGetErrorString(status));
  }
  return memory;
}

void PinnedMemory::release(void* memory, std::size_t bytes, cudaStream_t stream) noexcept {
  const std::size_t size = block_size(bytes);
  int device = 0;
  cudaGetDevice(&device);
  if (cudaEvent_t done = events_->take(); done != nullptr) {
    if (cudaEventRecord(done, stream) == cudaSuccess) {
      std::lock_guard lock(mutex_);
      if (kept_bytes_ + size <= kMostKeptPinned) {
        try {
          kept_[size].push_back({memory, done, device});
          kept_bytes_ += size;
          return;
        } catch (const std::bad_alloc&) {
          // Not kept, then.
        }
      }
    }
    cudaEventDestroy(done);
  }
  cudaStreamSynchronize(stream);
  cudaFreeHost(memory);
  cudaGetLastError();
}

bool PinnedMemory::finished(cudaEvent_t done) noexcept {
  if (cudaEventQuery(done) == cudaSuccess) return true;
  cudaGetLastError();  // clears "not ready", which the next launch would take for its error
  return false;
}

void PinnedMemory::free_now(const Block& block) noexcept {
  cudaEventDestroy(block.done);
  cudaFreeHost(block.memory);
}

void PinnedMemory::drop_finished() noexcept {
  std::lock_guard lock(mutex_);
  for (auto& [size, blocks] : kept_)
    for (auto block = blocks.begin(); block != blocks.end();) {
      if (!finished(block->done)) {
        ++block;
        continue;
      }
      free_now(*block);
      kept_bytes_ -= size;
      block = blocks.erase(block);
    }
  cudaGetLastError();
}

}  // namespace echotrain::numerics::cuda
