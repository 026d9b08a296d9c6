// Memory that messages are received into and GPUs read from by themselves.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain::numerics {

/// One block of pinned memory, which lives as long as these resources and whoever else holds it: freeing some would
/// stop all GPUs. Who receives messages there spares the copy that a GPU otherwise needs. Thread-safe.
class ReceiveMemory {
 public:
  static constexpr std::size_t kBytes = 64 << 20;

  explicit ReceiveMemory(Resources& resources) : budget_(resources.memory()) {}
  ReceiveMemory(const ReceiveMemory&) = delete;
  ReceiveMemory& operator=(const ReceiveMemory&) = delete;

  /// The block of kBytes, for the first caller; null for later ones, and where there is no GPU or where the budget is
  /// too small for it. It counts in that budget until it is freed. A device must be current. Takes some 20 ms once.
  std::shared_ptr<std::byte[]> take();
  /// The block, as soon as somebody has it; empty before.
  std::span<std::byte> block() const;
  /// Whether these bytes are in the block.
  bool holds(std::span<const std::byte> bytes) const;

 private:
  const std::shared_ptr<MemoryBudget> budget_;
  std::mutex mutex_;
  bool tried_ = false;
  std::shared_ptr<std::byte[]> owner_;
  std::atomic<std::byte*> block_ = nullptr;  // of owner_, once it is there
};

namespace cuda {
/// Memory of the host's that all devices read; nullptr: there is none left.
std::byte* pin(std::size_t bytes);
/// Gives it back. Waits for all work of all devices.
void unpin(std::byte* memory) noexcept;
}  // namespace cuda

}  // namespace echotrain::numerics
