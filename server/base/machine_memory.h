// The default memory budget, from the machine's memory or the container's.
#pragma once

#include <cstdint>
#include <filesystem>

namespace echotrain::server {

/// The process's memory may exceed the budget (`memory_mib`) by this much: the program itself, stacks, the heap's gaps.
constexpr std::uint64_t kMemorySlack = std::uint64_t{256} << 20;

/// Returns a budget for this process [bytes]: of the memory of its control group (a container, a unit with MemoryMax=),
/// version 1 or 2, 15/16; of the machine's, or of the address space where that is bounded (ulimit -v), 3/4; the least
/// of these, less kMemorySlack, and at least kMemorySlack. `root` is prepended to /proc and /sys.
std::uint64_t default_memory_budget(const std::filesystem::path& root = "/");

}  // namespace echotrain::server
