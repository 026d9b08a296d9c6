// The budget that is taken where the options name none.
#include "server/base/machine_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace echotrain::server {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// A folder that looks like the root of a machine with control groups.
class Machine {
 public:
  ~Machine() { fs::remove_all(root_); }
  Machine& write(const fs::path& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
    return *this;
  }
  std::uint64_t budget() const { return default_memory_budget(root_); }

 private:
  static int next() {
    static int count = 0;
    return ++count;
  }
  const fs::path root_ =
      fs::temp_directory_path() / ("machine." + std::to_string(::getpid()) + "." + std::to_string(next()));
};

std::uint64_t of_group(std::uint64_t bytes) { return bytes / 16 * 15 - kMemorySlack; }

TEST(MachineMemory, IsThreeQuartersOfTheMachinesWithoutAGroup) {
  const std::uint64_t machine =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t expected = machine / 4 * 3 - kMemorySlack;
  EXPECT_EQ(Machine().budget(), expected);
  EXPECT_EQ(Machine().write("sys/fs/cgroup/memory.max", "max").budget(), expected);
  EXPECT_EQ(Machine().write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712").budget(), expected);
}

TEST(MachineMemory, FollowsTheGroupOfEitherVersion) {
  EXPECT_EQ(Machine().write("sys/fs/cgroup/memory.max", std::to_string(kGiB)).budget(), of_group(kGiB));
  EXPECT_EQ(Machine().write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(2 * kGiB)).budget(),
            of_group(2 * kGiB));
  EXPECT_EQ(Machine().write("sys/fs/cgroup/memory.max", "1000").budget(), kMemorySlack) << "the least that works";
}

TEST(MachineMemory, FollowsTheLeastOfTheGroupsThatThisOneIsIn) {
  EXPECT_EQ(Machine()
                .write("proc/self/cgroup", "0::/system.slice/echotrain.service")
                .write("sys/fs/cgroup/system.slice/memory.max", std::to_string(kGiB))
                .write("sys/fs/cgroup/system.slice/echotrain.service/memory.max", std::to_string(2 * kGiB))
                .budget(),
            of_group(kGiB));
  EXPECT_EQ(Machine()
                .write("proc/self/cgroup", "5:cpu:/other\n4:hugetlb,memory:/a/b\n")
                .write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", std::to_string(kGiB))
                .write("sys/fs/cgroup/memory/other/memory.limit_in_bytes", "5000")
                .budget(),
            of_group(kGiB));
  EXPECT_EQ(Machine()
                .write("proc/self/cgroup", "0::/of/the/host")
                .write("sys/fs/cgroup/memory.max", std::to_string(kGiB))
                .budget(),
            of_group(kGiB))
      << "in a container, whose path is not here";
}

}  // namespace
}  // namespace echotrain::server
