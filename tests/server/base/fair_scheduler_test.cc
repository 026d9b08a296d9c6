// The turns are counted while threads of two addresses compute.
#include "server/base/fair_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/matter_of_time.h"

namespace echotrain::server {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Computing = FairScheduler::Scan::Computing;

template <class Reached>
bool soon(const Reached& reached, milliseconds most = milliseconds(10000)) {
  for (const auto end = Clock::now() + most; Clock::now() < end; std::this_thread::sleep_for(milliseconds(1)))
    if (reached()) return true;
  return reached();
}

/// Scans of one address, each on a thread of its own that computes, and looks, until the end.
class Crowd {
 public:
  Crowd(FairScheduler& scheduler, const std::string& address, int count) : steps_(static_cast<std::size_t>(count)) {
    for (int i = 0; i < count; ++i)
      threads_.emplace_back([this, i, scan = scheduler.scan(address)](const std::stop_token& stop) {
        const Computing computing(*scan, stop);
        while (!stop.stop_requested()) {
          numerics::Yield::of_thread()->look();
          ++at_once_;
          most_ = std::max(most_.load(), at_once_.load());
          std::this_thread::sleep_for(milliseconds(1));
          --at_once_;
          ++steps_[static_cast<std::size_t>(i)];
        }
      });
  }

  /// The most that have computed at once since the last call.
  int most() { return most_.exchange(0); }
  bool all_have_computed() const {
    return std::all_of(steps_.begin(), steps_.end(), [](const auto& steps) { return steps > 0; });
  }

 private:
  std::atomic<int> at_once_ = 0, most_ = 0;
  std::vector<std::atomic<int>> steps_;
  std::vector<std::jthread> threads_;  // last: they use the others
};

TEST(FairScheduler, NobodyWaitsWhereOneAddressComputes) {
  const auto scheduler = std::make_shared<FairScheduler>(2);
  Crowd crowd(*scheduler, "10.0.0.1", 6);
  EXPECT_TRUE(soon([&] { return crowd.most() == 6; }));
}

TEST(FairScheduler, TwoAddressesHaveHalfOfTheCoresEach) {
  const auto scheduler = std::make_shared<FairScheduler>(4);
  Crowd many(*scheduler, "10.0.0.1", 12);
  ASSERT_TRUE(soon([&] { return many.most() == 12; }));
  Crowd few(*scheduler, "10.0.0.2", 2);
  // Those who compute already make room within a turn; afterwards never more than 4 / 2 of the many.
  EXPECT_TRUE(soon([&] {
    many.most();
    std::this_thread::sleep_for(milliseconds(50));
    return many.most() == 2;
  }));
  EXPECT_TRUE(soon([&] { return few.most() == 2; })) << "the few wait for nobody";
  EXPECT_TRUE(soon([&] { return many.all_have_computed(); })) << "the many take turns";
}

TEST(FairScheduler, AnAddressThatNoLongerComputesLeavesItsPart) {
  const auto scheduler = std::make_shared<FairScheduler>(2);
  Crowd many(*scheduler, "10.0.0.1", 6);
  const auto idle = scheduler->scan("10.0.0.2");
  {
    const Computing computing(*idle, {});
    EXPECT_TRUE(soon([&] {
      many.most();
      std::this_thread::sleep_for(milliseconds(50));
      return many.most() == 1;
    }));
  }
  EXPECT_TRUE(soon([&] { return many.most() == 6; })) << "after a second";
}

/// Two addresses have 6 of 12 cores each, and leave half of that free for others, whoever helps.
TEST(FairScheduler, HelpersLeaveCoresToOtherAddresses) {
  const auto scheduler = std::make_shared<FairScheduler>(12);
  const auto first = scheduler->scan("10.0.0.1"), second = scheduler->scan("10.0.0.2");
  const Computing computing(*first, {});
  constexpr int kAll = std::numeric_limits<int>::max();
  EXPECT_EQ(first->most_helpers(), kAll);
  {
    const Computing others(*second, {});
    EXPECT_EQ(first->most_helpers(), 12 - 3 - 1);
    const auto third = scheduler->scan("10.0.0.1");
    const Computing also(*third, {});
    EXPECT_EQ(first->most_helpers(), 12 - 3 - 2);
  }
  EXPECT_TRUE(soon([&] {
    first->look();
    return first->most_helpers() == kAll;
  })) << "a second after the other one has computed";
}

TEST(FairScheduler, AnAddressThatComputedLongHasItsPartForASecondAfterwards) {
  const auto scheduler = std::make_shared<FairScheduler>(12);
  const auto first = scheduler->scan("10.0.0.1"), second = scheduler->scan("10.0.0.2");
  const Computing computing(*first, {});
  {
    const Computing others(*second, {});
    std::this_thread::sleep_for(milliseconds(1100));
  }
  std::this_thread::sleep_for(milliseconds(10));
  first->look();
  EXPECT_LT(first->most_helpers(), 12) << "it has only just ended";
}

/// Threads of four addresses begin and end at once, many times: none is lost in line.
TEST(FairScheduler, NobodyIsForgottenInLine) {
  const auto scheduler = std::make_shared<FairScheduler>(4);
  std::atomic<int> longest_ms = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 16; ++i)
      threads.emplace_back([&, scan = scheduler->scan(std::string(1, static_cast<char>('a' + i % 4)))] {
        for (int k = 0; k < 100; ++k) {
          const auto since = Clock::now();
          const Computing computing(*scan, {});
          std::this_thread::sleep_for(std::chrono::microseconds(20));
          const auto ms = static_cast<int>((Clock::now() - since) / milliseconds(1));
          for (int before = longest_ms; before < ms && !longest_ms.compare_exchange_weak(before, ms);) {
          }
        }
      });
  }
  EXPECT_LT(longest_ms, 1900) << kMatterOfTime << "after two seconds they go on without a turn";
}

TEST(FairScheduler, WhoRestsLetsOthersComputeAndWaitsAgainAfterwards) {
  const auto scheduler = std::make_shared<FairScheduler>(2);
  const auto other = scheduler->scan("10.0.0.2"), first = scheduler->scan("10.0.0.1"),
             second = scheduler->scan("10.0.0.1");
  const Computing others(*other, {});
  const Computing computing(*first, {});
  std::atomic<bool> computes = false, leave = false;
  std::jthread thread([&] {
    const Computing also(*second, {});
    computes = true;
    while (!leave) std::this_thread::sleep_for(milliseconds(1));
  });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(computes) << "the address has one core of two";
  first->rest();
  EXPECT_TRUE(soon([&] { return computes.load(); }));
  leave = true;
  first->look();
}

TEST(FairScheduler, AWaitEndsWithItsScanAndInAnyCaseAfterTwoSeconds) {
  const auto scheduler = std::make_shared<FairScheduler>(2);
  const auto other = scheduler->scan("10.0.0.2"), first = scheduler->scan("10.0.0.1"),
             second = scheduler->scan("10.0.0.1");
  const Computing others(*other, {});
  const Computing computing(*first, {});  // and never looks
  std::stop_source stop;
  std::atomic<bool> stopped = false;
  std::jthread thread([&] {
    const Computing also(*second, stop.get_token());
    stopped = true;
  });
  stop.request_stop();
  EXPECT_TRUE(soon([&] { return stopped.load(); }, milliseconds(1000)));
  thread.join();
  const auto since = Clock::now();
  { const Computing also(*second, {}); }
  EXPECT_GE(Clock::now() - since, milliseconds(1900));
}

TEST(FairScheduler, AnExemptScanWaitsForNobody) {
  const auto scheduler = std::make_shared<FairScheduler>(1);
  const auto other = scheduler->scan("10.0.0.2"), first = scheduler->scan("10.0.0.1"), exempt = scheduler->scan("");
  const Computing others(*other, {}), computing(*first, {}), free(*exempt, {});
  EXPECT_EQ(numerics::Yield::of_thread(), first.get()) << "the exempt one is none of the thread's turns";
}

}  // namespace
}  // namespace echotrain::server
