#include "gadgets/numerics/core/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace echotrain::numerics {
namespace {

#ifndef ECHOTRAIN_SANITIZED  // sanitizers take address space of their own for each thread

/// Leaves this process room for a few more stacks only, then asks for 4096 threads.
void ask_for_too_many_threads() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto room = std::uint64_t{64} << 20;
  const rlim_t most = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + room;
  const rlimit limit{most, most};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
  try {
    const ThreadPool pool(4096);
  } catch (const ResourceError& error) {
    std::fputs(error.what(), stderr);
    ::_exit(0);
  }
  ::_exit(3);
}

TEST(ThreadPoolTest, SaysHowManyThreadsItCouldStart) {
  EXPECT_EXIT(ask_for_too_many_threads(), ::testing::ExitedWithCode(0),
              "cannot start 4096 CPU threads \\(only [0-9]+\\): .*; set `threads` lower");
}

#endif

}  // namespace
}  // namespace echotrain::numerics
