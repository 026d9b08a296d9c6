#include "server/memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

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

}  // namespace echotrain::server
