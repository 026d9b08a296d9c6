// Pinned host memory, which the device copies from and to without the CPU.
#pragma once

#include <cuda_runtime.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "gadgets/numerics/core/cuda/event_pool.cuh"
#include "gadgets/numerics/core/cuda/pinned_slabs.cuh"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain::numerics::cuda {

/// Pinned host memory of all contexts. Pinning is slow and stops the device, so blocks are kept, each with an event
/// that says when the last work which may use it is done. Kept blocks count in the budget of the machine's memory, and
/// are freed when anybody needs their memory; those in use count where they are used. Small ones are parts of slabs,
/// which go as a whole. Thread-safe.
class PinnedMemory final : public Evictable {
 public:
  explicit PinnedMemory(Resources& resources);
  /// No device is left here, so all work that used the blocks is done.
  ~PinnedMemory() override;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  /// Throws ResourceError when the machine has none left.
  void* allocate(std::size_t bytes);
  /// Keeps the block until the work now on `stream` is done; where it cannot be kept, it is freed then. Waits for no
  /// work. The stream's device must be current.
  void release(void* memory, std::size_t bytes, cudaStream_t stream) noexcept;

  std::optional<std::uint64_t> unused_since() const override;
  /// Drops blocks that no work uses any more. A thread frees them, for which this waits 100 ms at most.
  void evict(std::uint64_t wanted) override;

 private:
  struct Block {
    void* memory;
    cudaEvent_t done;
    int device;  // the device of `done`
  };
  struct Going {
    Block block;
    std::size_t size;
  };
  static bool finished(cudaEvent_t done) noexcept;
  static void free_now(const Block& block) noexcept;
  void* small_block(std::size_t size);
  bool give_back_small(void* memory, std::size_t size, cudaEvent_t done, int device) noexcept;
  bool keep(const Block& block, std::size_t size) noexcept;
  bool free_later(const Block& block, std::size_t size) noexcept;
  void free_what_was_used(std::unique_lock<std::mutex>& lock);
  void no_longer_kept(std::size_t size) noexcept;
  void drop_finished() noexcept;
  void free_what_goes(const std::stop_token& stop);

  const std::shared_ptr<EventPool> events_;
  const std::shared_ptr<MemoryBudget> budget_;
  const std::uint64_t most_kept_;
  mutable std::mutex mutex_;
  mutable PinnedSlabs slabs_{*events_};
  int slab_device_ = 0;  // one that is in use: choosing another one would take memory there
  std::map<std::size_t, std::vector<Block>> kept_;
  std::size_t kept_bytes_ = 0;
  std::vector<Going> going_;  // not kept any more; the thread frees them, and then they no longer count
  std::vector<Going> used_;   // counted nowhere; the thread frees them when no work uses them any more
  std::size_t used_bytes_ = 0;
  bool freeing_ = false;
  std::condition_variable_any changed_;  // going_ or freeing_ has changed
  std::jthread thread_;                  // last: it uses the other members
};

}  // namespace echotrain::numerics::cuda
