// When free pages go back to the machine, and that nobody who moves bytes has to do it.
#include "server/base/heap_trimmer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/matter_of_time.h"
#include "tests/support/resources.h"

namespace echotrain::server {
namespace {

constexpr std::uint64_t kMib = 1 << 20;

struct Policy {
  TrimPolicy policy;
  const Clock::time_point start = Clock::now();
  TrimPolicy::Seen seen(double s, std::uint64_t resident_mib, std::uint64_t counted_mib = 100) const {
    return {start + seconds(s), resident_mib * kMib, counted_mib * kMib, 1024 * kMib};
  }
  void done(double s, std::uint64_t resident_mib) { policy.done(seen(s, resident_mib)); }
  bool worth_it(double s, std::uint64_t resident_mib, std::uint64_t counted_mib = 100, bool wanted = false) {
    return policy.worth_it(seen(s, resident_mib, counted_mib), wanted);
  }
};

TEST(TrimPolicy, WaitsUntilThereIsSomethingToGain) {
  Policy p;
  p.done(0, 160);  // 60 MiB that nobody counts: the program itself
  EXPECT_FALSE(p.worth_it(6, 160));
  EXPECT_FALSE(p.worth_it(60, 190)) << "30 MiB more";
  EXPECT_TRUE(p.worth_it(60, 194)) << "34 MiB more";
  EXPECT_FALSE(p.worth_it(60, 290, 200)) << "of which 100 are in use";
  EXPECT_FALSE(p.worth_it(4, 500)) << "it was done a moment ago";
  p.done(70, 300);  // 200 MiB stay
  EXPECT_FALSE(p.worth_it(80, 300)) << "what has not gone once will not go now";
  EXPECT_FALSE(p.worth_it(81, 220)) << "it has gone by itself";
  EXPECT_TRUE(p.worth_it(82, 260)) << "and come back";
}

TEST(TrimPolicy, AtOnceWhereMemoryIsShortOrNobodyIsHere) {
  Policy p;
  p.done(0, 160);
  EXPECT_TRUE(p.worth_it(0.5, 161, 100, true));
  EXPECT_FALSE(p.worth_it(0.1, 161, 100, true)) << "not again and again";
  EXPECT_FALSE(p.worth_it(1, 1140, 1060)) << "within the bound and half of what may be above it";
  EXPECT_TRUE(p.worth_it(1, 1160, 1060));
  EXPECT_FALSE(p.worth_it(1, 1160, 1095)) << "what is too much is in use";
}

double cpu_ms_of_this_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

std::uint64_t resident() {
  std::uint64_t all = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// 100 MiB of free pages, each between two blocks that are in use: to give them back takes 20,000 calls of the kernel,
/// which no thread that moves bytes should make.
TEST(HeapTrimmer, WhoEndsASessionDoesNotLookForFreePages) {
#ifdef ECHOTRAIN_SANITIZED
  GTEST_SKIP() << "another allocator";
#endif
  HeapTrimmer heap_trimmer(test_resources());
  std::vector<void*> blocks(40000);
  for (void*& block : blocks) std::memset(block = std::malloc(10000), 1, 10000);
  for (std::size_t i = 0; i < blocks.size(); i += 2) std::free(std::exchange(blocks[i], nullptr));
  const std::uint64_t full = resident();
  const double begin = cpu_ms_of_this_thread();
  heap_trimmer.session_ended(true);
  heap_trimmer.free_unused();
  EXPECT_LE(cpu_ms_of_this_thread() - begin, 10) << kMatterOfTime;  // the calls themselves take 38 to 41
  const auto end = Clock::now() + std::chrono::seconds(60);
  while (resident() + 50 * kMib > full && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LE(resident() + 50 * kMib, full) << "and they go back all the same";
  for (void* block : blocks) std::free(block);
}

}  // namespace
}  // namespace echotrain::server
