#include "server/base/machine_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace echotrain::server {

namespace {

namespace fs = std::filesystem;

/// Returns the bound in a file; nothing where there is none ("max", or no file).
std::uint64_t bound_in(const fs::path& file) {
  std::uint64_t bytes = 0;
  return std::ifstream(file) >> bytes && bytes > 0 ? bytes : UINT64_MAX;
}

/// Returns the least bound of a group and those that it is in. Inside of a container, the group's path may be one of
/// outside: the folders that are not there say nothing.
std::uint64_t bound_of_group(const fs::path& folder, const fs::path& group, const char* file) {
  std::uint64_t bytes = bound_in(folder / file);
  fs::path here = folder;
  for (const fs::path& part : group.relative_path()) bytes = std::min(bytes, bound_in((here /= part) / file));
  return bytes;
}

std::uint64_t group_memory(const fs::path& root) {
  const fs::path folder = root / "sys/fs/cgroup";
  std::uint64_t bytes =
      std::min(bound_in(folder / "memory.max"), bound_in(folder / "memory" / "memory.limit_in_bytes"));
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/system.slice/x.service" or "4:memory:/docker/1234"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = line.substr(second + 1);
    if (controllers == ",,") bytes = std::min(bytes, bound_of_group(folder, group, "memory.max"));
    if (controllers.find(",memory,") != std::string::npos)
      bytes = std::min(bytes, bound_of_group(folder / "memory", group, "memory.limit_in_bytes"));
  }
  return bytes;
}

std::uint64_t address_space() {
  rlimit space{};
  return ::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY ? space.rlim_cur : UINT64_MAX;
}

}  // namespace

std::uint64_t default_memory_budget(const fs::path& root) {
  const std::uint64_t machine =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t share = std::min(std::min(machine, address_space()) / 4 * 3, group_memory(root) / 16 * 15);
  return std::max(share, 2 * kMemorySlack) - kMemorySlack;
}

}  // namespace echotrain::server
