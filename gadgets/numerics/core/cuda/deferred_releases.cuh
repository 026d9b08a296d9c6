// Deferred release of memory that is given back when nothing may be freed: in a stream's callback, or while a graph is
// recorded.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

#include "gadgets/numerics/core/cuda/device_pool.cuh"
#include "gadgets/numerics/core/cuda/pinned_memory.cuh"

namespace echotrain::numerics::cuda {

/// The memory that arrays of one context release, from any thread. Blocks that cannot be freed at once wait for
/// free_deferred().
class DeferredReleases {
 public:
  struct Block {
    void* memory;
    std::size_t bytes;  // size asked for
    bool host;          // true: pinned memory
  };

  /// `pool` and `pinned` must outlive this.
  DeferredReleases(int device, cudaStream_t stream, DevicePool& pool, PinnedMemory& pinned)
      : device_(device), stream_(stream), pool_(pool), pinned_(pinned) {}
  DeferredReleases(const DeferredReleases&) = delete;
  DeferredReleases& operator=(const DeferredReleases&) = delete;

  void give_back(const Block& block) noexcept;
  /// Begins (true) or ends (false) a period in which the stream is recorded as a graph. For the context's own thread.
  void recording(bool on) noexcept;
  /// Frees the deferred blocks, unless the stream is recorded. The device must be current; for the context's own
  /// thread.
  void free_deferred() noexcept;

 private:
  void defer(const Block& block) noexcept;
  void free_now(const Block& block) noexcept;

  const int device_;
  const cudaStream_t stream_;
  DevicePool& pool_;
  PinnedMemory& pinned_;
  std::mutex recording_mutex_;
  std::atomic<bool> recording_ = false;  // written by the context's own thread only
  std::mutex deferred_mutex_;
  std::vector<Block> deferred_;  // released in a callback or a recording
};

}  // namespace echotrain::numerics::cuda
