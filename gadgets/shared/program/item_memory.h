// ItemMemory is memory that a program outside this process reads, lent to the gadgets before the one that speaks with
// it: what they make there need not be copied.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "gadgets/numerics/core/context.h"

namespace echotrain {

/// The lender. Thread-safe.
class ItemMemory {
 public:
  ItemMemory() = default;
  virtual ~ItemMemory() = default;
  ItemMemory(const ItemMemory&) = delete;
  ItemMemory& operator=(const ItemMemory&) = delete;
  /// Returns uninitialised memory for `bytes`; null if there is no room.
  virtual std::shared_ptr<void> take(std::size_t bytes) = 0;
};

/// The memory that is lent in a scan. Kept by the scan's context (Context::cache).
struct LentMemory {
  std::weak_ptr<ItemMemory> memory;
  /// Lends it, where no other is lent: the first step of a chain reads most.
  void lend(const std::shared_ptr<ItemMemory>& lent) {
    if (memory.expired()) memory = lent;
  }
};

/// Allocates an array that goes on to the next gadget: on the CPU in memory that is lent, while that has room; else as
/// Context::allocate().
template <class T>
numerics::Array<T> allocate_item(numerics::Context& compute, numerics::Shape shape) {
  if (!compute.cuda())
    if (const auto lender = compute.cache<LentMemory>().memory.lock())
      if (std::shared_ptr<void> lent = lender->take(static_cast<std::size_t>(shape.size()) * sizeof(T)))
        return numerics::Array<T>(std::move(lent), shape);
  return compute.allocate<T>(shape);
}

}  // namespace echotrain
