// The kernel says which thread goes first on a core.
#include "server/base/priority.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <thread>

#include "server/scan/worker.h"

namespace echotrain::server {
namespace {

int nice_now() { return ::getpriority(PRIO_PROCESS, 0); }

TEST(Priority, ThreadsThatComputeGoAfterThoseThatMoveBytes) {
  const int process = nice_now();
  std::jthread([&] {
    raise_priority();
    const int first = nice_now();
    EXPECT_TRUE(first == process - 5 || first == process) << "where it is not allowed";
    std::jthread([&] {
      lower_priority(0);
      EXPECT_EQ(nice_now(), process) << "though the thread that started it goes first";
      lower_priority(3);
      EXPECT_EQ(nice_now(), std::min(19, process + 3));
      stop_yielding(this_thread());
      if (first < process) {
        EXPECT_EQ(nice_now(), process);
      }
    }).join();
    EXPECT_EQ(nice_now(), first);
  }).join();
  EXPECT_EQ(nice_now(), process);
}

/// The calling thread's slice [ns] as sched_getattr(2) tells it; 0 where the kernel has none of threads (before 6.12).
std::uint64_t slice_now() {
  constexpr std::size_t kRuntime = 3;  // after size and policy, flags, nice and priority
  std::array<std::uint64_t, 7> attributes{};
  return ::syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0) == 0 ? attributes.at(kRuntime) : 0;
}

/// Whoever has the shorter slice takes the other's core.
TEST(Priority, WhoWakesTakesTheCoreOfThoseThatCompute) {
  std::jthread([] {
    const std::uint64_t of_kernel = slice_now();
    if (of_kernel == 0) GTEST_SKIP() << "this kernel gives threads no slices of their own";
    raise_priority();
    const std::uint64_t moves_bytes = slice_now();
    EXPECT_LT(moves_bytes, of_kernel);
    std::jthread([&] {
      EXPECT_EQ(slice_now(), moves_bytes) << "of the thread that started it";
      lower_priority(0);
      const std::uint64_t computes = slice_now();
      EXPECT_GT(computes, of_kernel);
      lower_priority(3);
      EXPECT_GT(slice_now(), computes);
    }).join();
  }).join();
}

void run_on(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(core), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
}

// A thread that has to leave the one core to another one waits for it nearly all of the time (weights 3 and 1024 of
// SCHED_IDLE and others); one that sleeps does not wait.
TEST(Priority, WhoHasNoCoreWaitsForOne) {
  if (!std::ifstream("/proc/self/schedstat")) GTEST_SKIP() << "this kernel does not count how long threads wait";
  const int core = ::sched_getcpu();
  std::atomic<bool> begun = false, ended = false;
  std::chrono::nanoseconds starved{}, slept{};
  std::jthread last([&] {
    run_on(core);
    const sched_param none{};
    ASSERT_EQ(::sched_setscheduler(0, SCHED_IDLE, &none), 0);
    begun = true;
    while (!ended) continue;
    starved = run_queue_delay(this_thread());
  });
  while (!begun) std::this_thread::yield();
  std::jthread([&] {
    run_on(core);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(400);
    while (std::chrono::steady_clock::now() < end) continue;
    ended = true;
  }).join();
  last.join();
  std::jthread([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    slept = run_queue_delay(this_thread());
  }).join();
  EXPECT_GE(starved, std::chrono::milliseconds(200)) << "half: it may have had the core while others took it";
  EXPECT_LT(slept, starved);
  EXPECT_EQ(run_queue_delay(0), std::chrono::nanoseconds(0)) << "there is no such thread";
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
