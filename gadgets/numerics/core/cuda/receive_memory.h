// Pinned memory that messages are received into and GPUs read directly (zero-copy).
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain::numerics {

/// One block of pinned memory, which lives as long as these resources and all its holders: freeing pinned memory would
/// stop all GPUs. Receiving messages there spares the copy that a GPU otherwise needs. Thread-safe.
class ReceiveMemory {
 public:
  static constexpr std::size_t kBytes = 64 << 20;

  explicit ReceiveMemory(Resources& resources) : budget_(resources.memory()) {}
  ReceiveMemory(const ReceiveMemory&) = delete;
  ReceiveMemory& operator=(const ReceiveMemory&) = delete;

  /// Returns the block of kBytes to the first caller; null to later ones, and where there is no GPU or where the budget
  /// is too small for it. It counts in that budget until it is freed. A device must be current. Takes some 20 ms once.
  std::shared_ptr<std::byte[]> take();
  /// The block once it was taken; empty until then.
  std::span<std::byte> block() const;
  /// True if these bytes are in the block.
  bool holds(std::span<const std::byte> bytes) const;

 private:
  const std::shared_ptr<MemoryBudget> budget_;
  std::mutex mutex_;
  bool tried_ = false;
  std::shared_ptr<std::byte[]> owner_;
  std::atomic<std::byte*> block_ = nullptr;  // the data of owner_, once it is there
};

namespace cuda {
/// Allocates host memory that all devices read; nullptr if none is left.
std::byte* pin(std::size_t bytes);
/// Frees it. Waits for all work of all devices.
void unpin(std::byte* memory) noexcept;
}  // namespace cuda

}  // namespace echotrain::numerics
