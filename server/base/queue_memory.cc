#include "server/base/queue_memory.h"

#include <malloc.h>

#include <cstdlib>
#include <new>

namespace echotrain::server {

namespace {

constexpr std::size_t kReserveBytes = 8 << 20;
// Blocks from this size on are mapped one by one, and so go back when they are freed. By default the bound grows to 32
// MiB with the blocks that are freed, and what is below it stays in the heap between others.
constexpr int kMappedBytes = 1 << 20;
std::atomic<void*> reserve = nullptr;

// Called by operator new, which tries again when this returns.
void take_reserve() {
  void* mine = reserve.exchange(nullptr);
  if (mine == nullptr) throw std::bad_alloc();
  std::free(mine);
}

}  // namespace

void refill_emergency_reserve() {
  if (reserve.load() != nullptr) return;
  void* mine = std::malloc(kReserveBytes);
  void* nothing = nullptr;
  if (mine != nullptr && !reserve.compare_exchange_strong(nothing, mine)) std::free(mine);
}

void fill_emergency_reserve() {
  ::mallopt(M_MMAP_THRESHOLD, kMappedBytes);
  refill_emergency_reserve();
  std::set_new_handler(take_reserve);
}

}  // namespace echotrain::server
