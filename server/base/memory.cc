#include "server/base/memory.h"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <new>

#include "gadgets/numerics/core/spare_memory.h"
#include "protocol/files/stream_file.h"
#include "server/base/clock.h"

namespace echotrain::server {

void Memory::check() const {
  if (whole_) return whole_->check();
  if (used_ > bound_)
    throw OverBudget(fmt::format(
        "the sessions of this server use all the memory it may take ({} MiB); try again later, or raise memory_mib",
        bound_ >> 20));
}

void Memory::add(std::uint64_t difference) {
  used_ += difference;
  if (whole_) whole_->add(difference);
}

void Memory::Share::set(std::uint64_t bytes) {
  if (memory_) memory_->add(bytes - bytes_);
  bytes_ = bytes;
}

std::uint64_t machine_memory() {
  std::uint64_t bytes =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::uint64_t limit = 0;
    if (std::ifstream(file) >> limit && limit > 0) bytes = std::min(bytes, limit);  // "max" is no number
  }
  return bytes;
}

namespace {

constexpr std::size_t kReserveBytes = 8 << 20;
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
