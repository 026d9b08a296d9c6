#include "server/base/memory.h"

#include <malloc.h>

#include <chrono>
#include <cstdlib>
#include <new>

#include "protocol/files/stream_file.h"
#include "server/base/clock.h"

namespace echotrain::server {

namespace {

constexpr std::size_t kReserveBytes = 8 << 20;
// Blocks of this size on are mapped one by one, and so go back when they are freed. By default the bound grows to 32
// MiB with the blocks that are freed, and what is below it stays in the heap between others.
constexpr int kMappedBytes = 1 << 20;
std::atomic<void*> reserve = nullptr;

void fill_reserve() {
  if (reserve.load() != nullptr) return;
  void* mine = std::malloc(kReserveBytes);
  void* nothing = nullptr;
  if (mine != nullptr && !reserve.compare_exchange_strong(nothing, mine)) std::free(mine);
}

// Called by operator new, which tries again when this returns.
void take_reserve() {
  void* mine = reserve.exchange(nullptr);
  if (mine == nullptr) throw std::bad_alloc();
  std::free(mine);
}

}  // namespace

void keep_memory_in_reserve() {
  ::mallopt(M_MMAP_THRESHOLD, kMappedBytes);
  fill_reserve();
  std::set_new_handler(take_reserve);
}

void give_back_free_memory(bool idle) {
  static std::atomic<Clock::rep> last = 0;
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep before = last;
  const Clock::duration pause = idle ? std::chrono::milliseconds(200) : std::chrono::seconds(5);
  if (now - before >= pause.count() && last.compare_exchange_strong(before, now)) ::malloc_trim(0);
  fill_reserve();
}

void give_back_spare_memory(numerics::Resources& resources) {
  const bool slabs = protocol::MessageBuffer::free_unused_slabs();
  const bool blocks = numerics::free_unused_blocks(resources);
  if (slabs || blocks) ::malloc_trim(0);
}

}  // namespace echotrain::server
