// Cores of their own for threads that spin, and whether any has to.
#include "server/base/busy_polling.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <stdexcept>
#include <thread>
#include <vector>

namespace echotrain::server {
namespace {

std::vector<int> cores_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

TEST(BusyPolling, SomeCoresAreLeftToOthers) {
  const int here = static_cast<int>(cores_of_this_thread().size());
  for (const int cores : {0, 1, 2, 3, 4, 8, 16, 1000}) {
    const int usable = std::min(cores, here), left = usable - DedicatedCores(cores).lendable();
    EXPECT_EQ(left, usable == 0 ? 0 : std::max(1, usable / 4)) << cores;
  }
}

TEST(BusyPolling, LeaseBindsTheThreadAndItsEndFreesIt) {
  const std::vector<int> before = cores_of_this_thread();
  if (before.size() < 2) GTEST_SKIP() << "needs two cores";
  std::thread([&] {
    DedicatedCores cores(1000);
    std::vector<std::unique_ptr<DedicatedCores::Lease>> leases;
    std::vector<int> lent;
    for (int i = 0; i < cores.lendable(); ++i) {
      leases.push_back(cores.take());
      ASSERT_TRUE(leases.back());
      const std::vector<int> now = cores_of_this_thread();
      ASSERT_EQ(now.size(), 1U);
      EXPECT_EQ(std::count(lent.begin(), lent.end(), now[0]), 0) << "lent twice";
      lent.push_back(now[0]);
    }
    EXPECT_FALSE(cores.take()) << "the others are for everybody";
    std::thread([&] {
      EXPECT_EQ(cores_of_this_thread().size(), 1U) << "inherited";
      cores.unpin();
      EXPECT_EQ(cores_of_this_thread(), before);
    }).join();
    leases.clear();
    EXPECT_EQ(cores_of_this_thread(), before);
    EXPECT_TRUE(cores.take()) << "given back";
  }).join();
}

TEST(BusyPolling, OneCoreIsRefusedAndTheReasonSaysWhatToDo) {
  try {
    BusyPolling busy_polling(1);
    FAIL() << "taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "latency: threads that spin need cores of their own, but this process may use only 1; give it two or "
                 "more (better four), or leave this option out");
  }
}

TEST(BusyPolling, IsWantedWhileAnybodyWaitsAndTellsOfTheFirst) {
  if (cores_of_this_thread().size() < 2) GTEST_SKIP() << "needs two cores";
  BusyPolling busy_polling(1000);
  int begun = 0;
  busy_polling.on_begin([&] { ++begun; });
  EXPECT_FALSE(busy_polling.wanted());
  {
    BusyPolling::Wait one(busy_polling);
    EXPECT_TRUE(busy_polling.wanted());
    BusyPolling::Wait other(busy_polling);
    EXPECT_EQ(begun, 1);
    one.rest(true);
    one.rest(true);
    EXPECT_TRUE(busy_polling.wanted()) << "the other waits";
    other.rest(true);
    EXPECT_FALSE(busy_polling.wanted());
    one.rest(false);
    EXPECT_EQ(begun, 2);
  }
  EXPECT_FALSE(busy_polling.wanted());
}

}  // namespace
}  // namespace echotrain::server
