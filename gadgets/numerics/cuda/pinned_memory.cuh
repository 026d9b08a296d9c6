// Pinned host memory, which the device copies from and to without the CPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/cuda/spare_events.cuh"

namespace echotrain::numerics::cuda {

/// Pinned host memory of all contexts. Pinning is slow and stops the device, so blocks are kept, each with an event
/// that says when the last work which may use it is done. Thread-safe.
class PinnedMemory {
 public:
  explicit PinnedMemory(Resources& resources) : events_(resources.share<SpareEvents>()) {}
  /// No device is left here, so all work that used the blocks is done.
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  /// ResourceError when the machine has none left.
  void* allocate(std::size_t bytes);
  /// Keeps the block until the work now on `stream` is done. The stream's device must be current.
  void release(void* memory, std::size_t bytes, cudaStream_t stream) noexcept;

 private:
  struct Block {
    void* memory;
    cudaEvent_t done;
    int device;  // that `done` belongs to
  };
  static bool finished(cudaEvent_t done) noexcept;
  static void free_now(const Block& block) noexcept;
  void drop_finished() noexcept;

  const std::shared_ptr<SpareEvents> events_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<Block>> kept_;
  std::size_t kept_bytes_ = 0;
};

}  // namespace echotrain::numerics::cuda
