#include "gadgets/numerics/core/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "gadgets/numerics/core/helper_limit.h"
#include "tests/support/matter_of_time.h"
#include "tests/support/process_threads.h"

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

/// Threads that sleep for `each` per element do not depend on how many cores there are.
void rest(std::int64_t begin, std::int64_t end, std::chrono::microseconds each) {
  std::this_thread::sleep_for(each * (end - begin));
}

/// All helpers are in one caller's loop, which would last for minutes, when another caller comes now and then.
TEST(ThreadPoolTest, WhoComputesForLongHoldsUpNoOther) {
  using namespace std::chrono_literals;
  const ThreadPool threads(4);
  std::stop_source stop;
  std::atomic<int> begun{0};
  std::jthread hog([&] {
    ThreadPool pool(threads, stop.get_token());
    try {
      pool.parallel_for(1'000'000, 1, [&](std::int64_t begin, std::int64_t end) {
        ++begun;
        rest(begin, end, 1ms);
      });
    } catch (const Stopped&) {
    }
  });
  while (begun < 4) std::this_thread::sleep_for(1ms);
  std::stop_source never;
  ThreadPool pool(threads, never.get_token());
  for (int frame = 0; frame < 3; ++frame) {
    std::mutex mutex;
    std::set<std::thread::id> who;
    pool.parallel_for(400, 1, [&](std::int64_t begin, std::int64_t end) {
      {
        const std::lock_guard lock(mutex);
        who.insert(std::this_thread::get_id());
      }
      rest(begin, end, 1ms);
    });
    EXPECT_GT(who.size(), 1u) << "nobody helped with frame " << frame;
  }
  stop.request_stop();
}

TEST(ThreadPoolTest, WhatHelpersLeaveIsDoneOnce) {
  using namespace std::chrono_literals;
  const ThreadPool threads(3);
  constexpr std::int64_t kElements = 1000;
  std::vector<std::jthread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&threads] {
      std::stop_source never;
      ThreadPool pool(threads, never.get_token());
      for (int i = 0; i < 4; ++i) {
        std::vector<std::atomic<int>> seen(kElements);
        pool.parallel_for(kElements, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t e = begin; e < end; ++e) ++seen[static_cast<std::size_t>(e)];
          rest(begin, end, 200us);
        });
        for (auto& count : seen) ASSERT_EQ(count, 1);
      }
    });
}

/// Helpers leave ranges and take them again while callers look whether they are done.
TEST(ThreadPoolTest, NobodyWorksForACallerThatHasReturned) {
  using namespace std::chrono_literals;
  const ThreadPool threads(6);
  std::atomic<int> late{0};
  std::vector<std::jthread> callers;
  for (int c = 0; c < 3; ++c)
    callers.emplace_back([&threads, &late, c] {
      std::stop_source never;
      ThreadPool pool(threads, never.get_token());
      for (int i = 0; i < 60; ++i) {
        const auto returned = std::make_shared<std::atomic<bool>>(false);
        const std::int64_t n = 48 * (1 + (i + c) % 3);
        pool.parallel_for(n, 1, [&late, returned](std::int64_t begin, std::int64_t end) {
          const auto mine = returned;
          rest(begin, end, 300us + 200us * (begin % 7));
          if (*mine) ++late;
        });
        *returned = true;
      }
    });
  callers.clear();
  EXPECT_EQ(late, 0);
}

/// With one condition for all, each loop of two pieces woke seven helpers, of which six found nothing to do. Each loop
/// lasts until its helper has fallen asleep again: nobody needs the pool's lock meanwhile, so that falling asleep is
/// all that a helper waits for, whenever it gets a core.
TEST(ThreadPoolTest, OnlyAsManyAreWokenAsThereIsWorkFor) {
  using namespace std::chrono_literals;
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  std::thread([] {}).join();  // ThreadSanitizer starts a thread of its own beside a program's first
  const std::set<std::string> before = threads_now();
  ThreadPool pool(8);
  std::vector<std::string> helpers;
  for (const std::string& name : threads_now())
    if (!before.contains(name)) helpers.push_back(name);
  ASSERT_EQ(helpers.size(), 7u);
  const auto waits = [&] {
    return std::accumulate(helpers.begin(), helpers.end(), std::int64_t{0},
                           [](std::int64_t sum, const std::string& name) { return sum + waits_of(name); });
  };
  const auto await = [&](const auto& happened) {
    while (!happened() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  };
  await([&] {  // all have fallen asleep
    return std::all_of(helpers.begin(), helpers.end(), [](const std::string& name) { return waits_of(name) > 0; });
  });
  constexpr int kLoops = 100;
  const auto caller = std::this_thread::get_id();
  const std::int64_t first = waits();
  for (int i = 0; i < kLoops; ++i) {
    std::atomic<int> begun{0};
    const std::int64_t asleep = waits();
    pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
      ++begun;
      await([&] { return begun == 2; });  // one piece each
      if (std::this_thread::get_id() == caller) await([&] { return waits() > asleep; });
    });
  }
  ASSERT_LT(std::chrono::steady_clock::now(), deadline) << kMatterOfTime << "no helper came, or it did not fall asleep";
  EXPECT_GE(waits() - first, kLoops);
  EXPECT_LE(waits() - first, kLoops + 3 * 7)
      << kMatterOfTime << "one for each loop, and some for the lock while all seven start";
}

/// A caller whose helper takes long sleeps on while helpers come and go in other callers' loops. They begin when it has
/// fallen asleep: until then it may wait for the pool's lock.
TEST(ThreadPoolTest, OnlyItsOwnHelpersWakeACaller) {
  using namespace std::chrono_literals;
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  const ThreadPool threads(4);
  // Both pieces have begun before the caller's is done, so that it waits for the other one.
  const auto with_a_helper = [](ThreadPool& pool, const auto& helps, const auto& calls) {
    const auto caller = std::this_thread::get_id();
    std::atomic<int> begun{0};
    pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
      ++begun;
      while (begun < 2) std::this_thread::yield();
      if (std::this_thread::get_id() != caller)
        helps();
      else
        calls();
    });
  };
  std::atomic<bool> others_done{false};
  std::atomic<std::int64_t> waits_before{-1};
  std::atomic<int> number{0};
  std::jthread waiting([&] {
    number = ::gettid();
    const std::string self = std::to_string(number);
    ThreadPool pool(threads, {});
    with_a_helper(
        pool, [&] { others_done.wait(false); }, [&] { waits_before = waits_of(self); });
  });
  const auto waits = [&] { return waits_of(std::to_string(number)); };
  while ((waits_before < 0 || waits() == waits_before) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  const std::int64_t asleep = waits();
  ThreadPool pool(threads, {});
  constexpr int kLoops = 300;
  for (int i = 0; i < kLoops; ++i)
    with_a_helper(
        pool, [] {}, [] {});
  const std::int64_t afterwards = waits();
  others_done = true;
  others_done.notify_all();
  waiting.join();
  ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "it did not fall asleep";
  EXPECT_LE(afterwards - asleep, 3) << "none, and some for the lock where that came first";
}

/// The one caller of a group gets as much help of three helpers as the six of another: half, so that helpers do about
/// 1.5 of 2.5 parts of its work. Seven that count alike would leave it 3/7 of a helper: 0.3 of its work.
TEST(ThreadPoolTest, GroupsAreHelpedAlike) {
  using namespace std::chrono_literals;
  const ThreadPool threads(4);
  const std::stop_source never;
  const auto many = std::make_shared<HelperTime>(), one = std::make_shared<HelperTime>();
  std::atomic<bool> done{false};
  std::vector<std::jthread> callers;
  for (int c = 0; c < 6; ++c)
    callers.emplace_back([&] {
      ThreadPool pool(threads, never.get_token(), many);
      while (!done) pool.parallel_for(64, 1, [](std::int64_t begin, std::int64_t end) { rest(begin, end, 1ms); });
    });
  std::this_thread::sleep_for(50ms);
  ThreadPool pool(threads, never.get_token(), one);
  std::atomic<std::int64_t> by_helpers{0};
  const auto self = std::this_thread::get_id();
  constexpr std::int64_t kElements = 1000;
  pool.parallel_for(kElements, 1, [&](std::int64_t begin, std::int64_t end) {
    rest(begin, end, 1ms);
    if (std::this_thread::get_id() != self) by_helpers += end - begin;
  });
  done = true;
  EXPECT_GT(by_helpers, kElements * 45 / 100);
}

/// Returns the share that helpers have done of loops of so many elements of 100 us, 10 ms apart; of four threads three
/// quarters at most.
double helped_part(ThreadPool& pool, int loops, std::int64_t elements) {
  using namespace std::chrono_literals;
  const auto self = std::this_thread::get_id();
  std::atomic<std::int64_t> by_helpers{0};
  for (int i = 0; i < loops; ++i) {
    std::this_thread::sleep_for(10ms);
    pool.parallel_for(elements, 1, [&](std::int64_t begin, std::int64_t end) {
      rest(begin, end, 100us);
      if (std::this_thread::get_id() != self) by_helpers += end - begin;
    });
  }
  return static_cast<double>(by_helpers) / static_cast<double>(loops * elements);
}

/// Calls parallel_for with many elements of 100 us each, until its end.
std::jthread hog(const ThreadPool& threads, std::shared_ptr<HelperTime> group) {
  return std::jthread([&threads, group = std::move(group)](const std::stop_token& stop) {
    ThreadPool pool(threads, stop, group);
    try {
      pool.parallel_for(100'000'000, 1,
                        [](std::int64_t begin, std::int64_t end) { rest(begin, end, std::chrono::microseconds(100)); });
    } catch (const Stopped&) {
    }
  });
}

/// A caller who has rested for a second would otherwise have all helpers for a third of a second.
TEST(ThreadPoolTest, WhoHasRestedKeepsOthersWaitingForMoments) {
  using namespace std::chrono_literals;
  const ThreadPool threads(4);
  const std::stop_source never;
  ThreadPool pool(threads, never.get_token());
  const auto rested = std::make_shared<HelperTime>();
  ThreadPool(threads, never.get_token(), rested).parallel_for(8, 1, [](std::int64_t begin, std::int64_t end) {
    rest(begin, end, 1ms);
  });
  {
    const std::jthread other = hog(threads, nullptr);
    std::this_thread::sleep_for(600ms);
    helped_part(pool, 1, 120);
  }
  const std::jthread other = hog(threads, rested);
  EXPECT_GT(helped_part(pool, 10, 120), 0.4) << kMatterOfTime << "of the first 150 ms";
}

struct Lender : HelperLimit {
  std::atomic<int> most{0};
  void look() override {}
  void rest() override {}
  int most_helpers() const override { return most; }
};

/// Two callers of a group together get as many of four helpers as the lender says.
TEST(ThreadPoolTest, ALenderBoundsTheHelpersOfAGroup) {
  using namespace std::chrono_literals;
  const ThreadPool threads(5);
  const std::stop_source never;
  const auto group = std::make_shared<HelperTime>();
  Lender lender;
  std::atomic<int> at_once{0}, most{0};
  const auto most_of_two_loops = [&] {
    most = 0;
    std::vector<std::jthread> callers;
    for (int c = 0; c < 2; ++c)
      callers.emplace_back([&] {
        Yield::of_thread() = &lender;
        ThreadPool pool(threads, never.get_token(), group);
        pool.parallel_for(60, 1, [&](std::int64_t begin, std::int64_t end) {
          const int now = ++at_once;
          for (int before = most; before < now && !most.compare_exchange_weak(before, now);) {
          }
          rest(begin, end, 1ms);
          --at_once;
        });
      });
    callers.clear();
    return most.load();
  };
  lender.most = 100;
  EXPECT_GT(most_of_two_loops(), 3);
  lender.most = 1;
  EXPECT_EQ(most_of_two_loops(), 3) << "one helper beside two callers";
  lender.most = 0;
  EXPECT_EQ(most_of_two_loops(), 2) << "none, and the work is done all the same";
}

/// No new loop begins, and nobody helps yet who could look.
TEST(ThreadPoolTest, HelpersComeWhenALenderLetsThem) {
  using namespace std::chrono_literals;
  const ThreadPool threads(5);
  const std::stop_source never;
  Lender lender;
  std::mutex mutex;
  std::set<std::thread::id> who;
  std::jthread caller([&] {
    Yield::of_thread() = &lender;
    ThreadPool pool(threads, never.get_token(), std::make_shared<HelperTime>());
    pool.parallel_for(1000, 1, [&](std::int64_t begin, std::int64_t end) {
      {
        const std::scoped_lock lock(mutex);
        who.insert(std::this_thread::get_id());
      }
      rest(begin, end, 1ms);
    });
  });
  const auto came = [&] {
    const std::scoped_lock lock(mutex);
    return who.size();
  };
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(came(), 1U);
  lender.most = 4;
  caller.join();
  EXPECT_EQ(came(), 5U) << "900 ms of work were left";
}

TEST(ThreadPoolTest, AnExceptionEndsACrowdedLoop) {
  using namespace std::chrono_literals;
  const ThreadPool threads(3);
  std::vector<std::jthread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&threads] {
      std::stop_source never;
      ThreadPool pool(threads, never.get_token());
      for (int i = 0; i < 5; ++i)
        EXPECT_THROW(pool.parallel_for(300, 1,
                                       [](std::int64_t begin, std::int64_t end) {
                                         rest(begin, end, 200us);
                                         if (begin <= 250 && 250 < end) throw ResourceError("element 250");
                                       }),
                     ResourceError);
    });
}

}  // namespace
}  // namespace echotrain::numerics
