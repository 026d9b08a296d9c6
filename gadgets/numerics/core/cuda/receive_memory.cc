#include "gadgets/numerics/core/cuda/receive_memory.h"

#include <cstdint>

#include "gadgets/numerics/core/dispatch.h"

namespace echotrain::numerics {

std::shared_ptr<std::byte[]> ReceiveMemory::take() {
  if constexpr (ECHOTRAIN_HAS_CUDA != 0) {
    constexpr std::uint64_t kShare = 8;  // takes at most 1 / kShare of a budget
    const std::scoped_lock lock(mutex_);
    if (tried_) return nullptr;
    tried_ = true;
    if (budget_->bound() / kShare < kBytes || !budget_->take_if_it_fits(kBytes)) return nullptr;
    std::byte* const memory = cuda::pin(kBytes);
    if (memory == nullptr) {
      budget_->give(kBytes);
      return nullptr;
    }
    owner_ = std::shared_ptr<std::byte[]>(memory, [budget = budget_](std::byte* pinned) {
      cuda::unpin(pinned);
      budget->give(kBytes);
    });
    block_ = memory;
    return owner_;
  }
  return nullptr;
}

std::span<std::byte> ReceiveMemory::block() const {
  std::byte* const memory = block_;
  return memory == nullptr ? std::span<std::byte>() : std::span<std::byte>(memory, kBytes);
}

bool ReceiveMemory::holds(std::span<const std::byte> bytes) const {
  const std::span<const std::byte> all = block();
  const auto begin = reinterpret_cast<std::uintptr_t>(all.data()), at = reinterpret_cast<std::uintptr_t>(bytes.data());
  return bytes.size() <= all.size() && at >= begin && at - begin <= all.size() - bytes.size();
}

}  // namespace echotrain::numerics
