// Threads of several addresses that compute, look, rest and are stopped at random, beside a pool that helps them: what
// is counted comes out even. Meant for the thread sanitizer too.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "gadgets/numerics/core/thread_pool.h"
#include "server/base/fair_scheduler.h"
#include "tests/support/matter_of_time.h"

namespace echotrain::server {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Computing = FairScheduler::Scan::Computing;

/// One scan's life, a few times over: as a worker does, but that nothing is reconstructed.
class Player {
 public:
  Player(FairScheduler& scheduler, const numerics::ThreadPool& threads, int number)
      : scheduler_(scheduler), threads_(threads) {
    random_.seed(static_cast<unsigned>(number));
    address_ = number % 5 == 4 ? "" : std::string(1, static_cast<char>('a' + number % 5));
  }

  void play(Clock::time_point end) {
    while (Clock::now() < end) {
      const auto scan = scheduler_.scan(address_);
      std::stop_source stop;
      const numerics::ThreadPool pool(threads_, stop.get_token(), scheduler_.helped(address_));
      std::jthread stopper;
      if (upto(3) == 0)
        stopper = std::jthread([&stop, wait = microseconds(upto(3000))] {
          std::this_thread::sleep_for(wait);
          stop.request_stop();
        });
      try {
        for (int batches = upto(6); batches > 0; --batches) batch(*scan, stop.get_token());
      } catch (const numerics::Stopped&) {
      } catch (const std::runtime_error&) {
      }
    }
  }
  std::int64_t batches() const { return batches_; }
  double longest_s() const { return longest_; }

 private:
  int upto(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void batch(FairScheduler::Scan& scan, const std::stop_token& stop) {
    const auto since = Clock::now();
    const Computing computing(scan, stop);
    longest_ = std::max(longest_, std::chrono::duration<double>(Clock::now() - since).count());
    numerics::ThreadPool pool(threads_, stop, scheduler_.helped(address_));
    for (int loops = upto(4); loops > 0; --loops) {
      const std::int64_t n = 1 + upto(300);
      std::atomic<std::int64_t> done = 0;
      const bool fails = upto(40) == 0;
      pool.parallel_for(n, 1, [&](std::int64_t begin, std::int64_t to) {
        if (fails && begin > n / 2) throw std::runtime_error("on purpose");
        std::this_thread::sleep_for(microseconds(5) * (to - begin));
        done += to - begin;
      });
      EXPECT_TRUE(fails || done == n);
      numerics::Yield* const yield = numerics::Yield::of_thread();
      if (yield != nullptr && upto(4) == 0) yield->rest();
      pool.check_stop();
    }
    ++batches_;
  }

  FairScheduler& scheduler_;
  const numerics::ThreadPool& threads_;
  std::mt19937 random_;
  std::string address_;
  std::int64_t batches_ = 0;
  double longest_ = 0;
};

/// Enough cores that nobody waits: threads count themselves as fast as they can, without a lock.
TEST(FairSchedulerStress, NobodyIsCountedTwiceOrForgotten) {
  constexpr int kCores = 64;
  const auto scheduler = std::make_shared<FairScheduler>(kCores);
  const auto first = scheduler->scan("a"), second = scheduler->scan("b");
  const Computing other(*second, {});
  {
    std::vector<std::jthread> running;
    for (int i = 0; i < 8; ++i)
      running.emplace_back([&, scan = scheduler->scan(i % 2 == 0 ? "a" : "b"), end = Clock::now() + milliseconds(500)] {
        while (Clock::now() < end)
          for (int k = 0; k < 1000; ++k) const Computing computing(*scan, {});
      });
  }
  const Computing one(*first, {});
  EXPECT_EQ(first->most_helpers(), kCores - kCores / 2 / 2 - 1) << "one thread of the address computes";
  EXPECT_EQ(second->most_helpers(), kCores - kCores / 2 / 2 - 1);
}

TEST(FairSchedulerStress, WhatIsCountedComesOutEven) {
  constexpr int kCores = 4, kPlayers = 20;
  const auto scheduler = std::make_shared<FairScheduler>(kCores);
  const numerics::ThreadPool threads(kCores);
  // These two stay, so that what the others have left undone at their addresses is seen.
  const auto first = scheduler->scan("a"), second = scheduler->scan("b");
  std::vector<std::unique_ptr<Player>> players;
  for (int i = 0; i < kPlayers; ++i) players.push_back(std::make_unique<Player>(*scheduler, threads, i));
  {
    std::vector<std::jthread> running;
    const auto end = Clock::now() + milliseconds(1500);
    for (const auto& player : players) running.emplace_back([&, end] { player->play(end); });
  }
  for (const auto& player : players) {
    EXPECT_GT(player->batches(), 0) << "it was forgotten";
    EXPECT_LT(player->longest_s(), 1.9) << kMatterOfTime << "after two seconds it would go on without a turn";
  }
  // With two addresses of two cores each: each may have two turns at once, and not three.
  const auto also = scheduler->scan("a"), third = scheduler->scan("a");
  std::this_thread::sleep_for(milliseconds(1100));  // the other addresses have no part any more
  const auto since = Clock::now();
  const Computing other(*second, {});
  const Computing one(*first, {});
  EXPECT_EQ(first->most_helpers(), kCores - 1 - 1) << "one turn of the address is counted, and nothing is left over";
  const Computing two(*also, {});
  EXPECT_EQ(first->most_helpers(), kCores - 1 - 2);
  EXPECT_LT(Clock::now() - since, milliseconds(500)) << kMatterOfTime << "nobody waits for those who are gone";
  {
    const auto before = Clock::now();
    std::stop_source stop;
    const std::jthread stopper([&] {
      std::this_thread::sleep_for(milliseconds(50));
      stop.request_stop();
    });
    const Computing three(*third, stop.get_token());
    EXPECT_GE(Clock::now() - before, milliseconds(45)) << "a third one waits, until it is stopped";
  }
  EXPECT_EQ(first->most_helpers(), kCores - 1 - 2);
}

}  // namespace
}  // namespace echotrain::server
