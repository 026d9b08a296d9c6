// Memory of the process that messages are received into and GPUs read from by themselves.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain::numerics {

/// One block of pinned memory, which lives as long as the process: freeing some would stop all GPUs. Who receives
/// messages there spares the copy that a GPU otherwise needs. Thread-safe.
class ReceiveMemory {
 public:
  static constexpr std::size_t kBytes = 64 << 20;

  explicit ReceiveMemory(Resources& resources) : budget_(resources.memory()) {}
  ~ReceiveMemory();
  ReceiveMemory(const ReceiveMemory&) = delete;
  ReceiveMemory& operator=(const ReceiveMemory&) = delete;

  /// The block, for the first caller in the process; nothing for later ones, and where there is no GPU or where the
  /// budget is too small for it. It counts in that budget. A device must be current. Takes some 20 ms once.
  std::span<std::byte> take();
  /// The block, as soon as somebody has it.
  static std::span<std::byte> block();
  /// Whether these bytes are in the block.
  static bool holds(std::span<const std::byte> bytes);

 private:
  const std::shared_ptr<MemoryBudget> budget_;
  bool tried_ = false, taken_ = false;
};

namespace cuda {
/// Memory of the host's that all devices read, for good; nullptr: there is none left.
std::byte* pin(std::size_t bytes);
}  // namespace cuda

}  // namespace echotrain::numerics
