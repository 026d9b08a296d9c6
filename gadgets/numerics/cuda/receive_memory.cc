#include "gadgets/numerics/cuda/receive_memory.h"

#include <atomic>
#include <cstdint>
#include <mutex>

#include "gadgets/numerics/core/dispatch.h"

namespace echotrain::numerics {

namespace {
std::atomic<std::byte*> pinned_block = nullptr;
}  // namespace

ReceiveMemory::~ReceiveMemory() {
  if (taken_) budget_->give(kBytes);
}

std::span<std::byte> ReceiveMemory::take() {
  if constexpr (ECHOTRAIN_HAS_CUDA != 0) {
    constexpr std::uint64_t kShare = 8;  // of a budget: no more than one part of so many
    static std::mutex taking;            // for the process's one block
    const std::scoped_lock lock(taking);
    if (tried_ || pinned_block != nullptr) return {};
    tried_ = true;
    if (budget_->bound() / kShare < kBytes || !budget_->take_if_it_fits(kBytes)) return {};
    std::byte* const memory = cuda::pin(kBytes);
    if (memory == nullptr) {
      budget_->give(kBytes);
      return {};
    }
    taken_ = true;
    pinned_block = memory;
    return {memory, kBytes};
  }
  return {};
}

std::span<std::byte> ReceiveMemory::block() {
  std::byte* const memory = pinned_block;
  return memory == nullptr ? std::span<std::byte>() : std::span<std::byte>(memory, kBytes);
}

bool ReceiveMemory::holds(std::span<const std::byte> bytes) {
  const std::span<const std::byte> all = block();
  const auto begin = reinterpret_cast<std::uintptr_t>(all.data()), at = reinterpret_cast<std::uintptr_t>(bytes.data());
  return bytes.size() <= all.size() && at >= begin && at - begin <= all.size() - bytes.size();
}

}  // namespace echotrain::numerics
