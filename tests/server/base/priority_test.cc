// Who goes first on a core, as the kernel says it.
#include "server/base/priority.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <thread>

#include "server/scan/worker.h"

namespace echotrain::server {
namespace {

int nice_now() { return ::getpriority(PRIO_PROCESS, 0); }

TEST(Priority, ThreadsThatComputeGoAfterThoseThatMoveBytes) {
  const int process = nice_now();
  std::jthread([&] {
    go_first();
    const int first = nice_now();
    EXPECT_TRUE(first == process - 5 || first == process) << "where it is not allowed";
    std::jthread([&] {
      go_after(0);
      EXPECT_EQ(nice_now(), process) << "though the thread that started it goes first";
      go_after(3);
      EXPECT_EQ(nice_now(), std::min(19, process + 3));
      yield_no_more(this_thread());
      if (first < process) {
        EXPECT_EQ(nice_now(), process);
      }
    }).join();
    EXPECT_EQ(nice_now(), first);
  }).join();
  EXPECT_EQ(nice_now(), process);
}

/// A step of nice(2) divides a thread's share by 1.25.
TEST(Priority, ScansOfOneAddressShareWhatTheyHaveBeyondTheCores) {
  for (std::int64_t beside = 0; beside < 4; ++beside) EXPECT_EQ(yields(beside, 4), 0) << beside;
  EXPECT_EQ(yields(4, 4), 1) << "4/5";
  EXPECT_EQ(yields(7, 4), 3) << "1/2";
  EXPECT_EQ(yields(15, 4), 5) << "at most";
  EXPECT_EQ(yields(1'000'000, 4), 5);
  EXPECT_EQ(yields(0, 1), 0);
}

}  // namespace
}  // namespace echotrain::server
