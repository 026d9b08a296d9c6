// The fair queue reads what clients send by turns of their addresses.
#include "server/base/offload.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;

class FairQueueTest : public testing::Test {
 protected:
  /// Work that waits until the gate is open, and then writes down whose it was.
  auto add(const std::string& address, Clock::time_point now = Clock::now()) {
    return queue_.add(
        address,
        [this, address] {
          std::unique_lock lock(mutex_);
          order_.push_back(address);
          ++begun_;
          opened_.wait(lock, [this] { return open_ || passes_ > 0; });
          if (!open_) --passes_;
        },
        [this] { ++woken_; }, now);
  }
  void open(bool now = true) {
    const std::scoped_lock lock(mutex_);
    open_ = now;
    opened_.notify_all();
  }
  /// Lets one of those that have begun end.
  void let_one_pass() {
    const std::scoped_lock lock(mutex_);
    ++passes_;
    opened_.notify_all();
  }
  static void wait_for(const std::function<bool()>& condition) {
    for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(5ms);
    ASSERT_TRUE(condition());
  }

  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
  int passes_ = 0;
  std::vector<std::string> order_;  // in which they have begun
  std::atomic<int> begun_ = 0, woken_ = 0;
  FairQueue queue_{2};  // last: its threads end first
};

TEST_F(FairQueueTest, OneAddressLeavesAThreadToOthers) {
  std::vector<std::shared_ptr<FairQueue::Job>> jobs;
  for (int i = 0; i < 20; ++i) jobs.push_back(add("a"));
  wait_for([this] { return begun_ == 1; });
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(begun_, 1) << "the other thread is for others";
  jobs.push_back(add("b"));
  wait_for([this] { return begun_ == 2; });
  open();
  wait_for([this] { return woken_ == 21; });
  for (const auto& job : jobs) EXPECT_TRUE(job->done());
}

TEST_F(FairQueueTest, AddressesTakeTurns) {
  std::vector<std::shared_ptr<FairQueue::Job>> jobs;
  for (int i = 0; i < 10; ++i) jobs.push_back(add("a"));
  for (int i = 0; i < 10; ++i) jobs.push_back(add("b"));
  wait_for([this] { return begun_ == 2; });
  jobs.push_back(add("c"));
  open();
  wait_for([this] { return woken_ == 21; });
  const auto c = std::find(order_.begin(), order_.end(), "c") - order_.begin();
  EXPECT_LE(c, 4) << "one of each, beside what had begun";
}

/// However many others have had theirs meanwhile. Ever new addresses go first no longer than for kRested.
TEST_F(FairQueueTest, WhoseLastTurnIsLongestAgoGoesFirst) {
  std::vector<std::shared_ptr<FairQueue::Job>> jobs;
  std::vector<std::string> known;
  for (int i = 0; i < 20; ++i) known.push_back("known" + std::to_string(i));
  open();
  for (const std::string& each : known) jobs.push_back(add(each));
  wait_for([this] { return woken_ == 20; });
  open(false);
  order_.clear();
  for (const char* both : {"x", "y"}) jobs.push_back(add(both));
  wait_for([this] { return begun_ == 22; });
  for (const std::string& each : known) jobs.push_back(add(each));
  const auto now = Clock::now();
  jobs.push_back(add("new", now));
  jobs.push_back(add("newer", now + 2 * FairQueue::kRested));
  for (int more = 23; more <= 44; ++more) {  // one at a time: a thread without a core changes no order
    let_one_pass();
    wait_for([&] { return begun_ == more; });
  }
  open();
  wait_for([this] { return woken_ == 44; });
  const auto place = [this](const char* of) { return std::find(order_.begin(), order_.end(), of) - order_.begin(); };
  EXPECT_LE(place("new"), 3) << "after what had begun, and beside what begins with it";
  EXPECT_GE(place("newer"), 22) << "of 24, two at a time";
}

TEST_F(FairQueueTest, WhatHasNotBegunCanBeTakenBack) {
  const auto first = add("a"), second = add("a");
  wait_for([this] { return begun_ == 1; });
  EXPECT_FALSE(first->cancel());
  EXPECT_TRUE(second->cancel());
  EXPECT_TRUE(second->cancel());  // it is out of the line already
  open();
  wait_for([&] { return first->done(); });
  EXPECT_FALSE(second->done());
  EXPECT_EQ(begun_, 1);
}

TEST_F(FairQueueTest, WhatIsThrownComesToWhoAsked) {
  open();
  const auto job = queue_.add(
      "a", [] { throw std::runtime_error("on purpose"); }, [this] { ++woken_; });
  wait_for([this] { return woken_ == 1; });
  EXPECT_THROW(job->rethrow(), std::runtime_error);
}

TEST(FairQueue, HoldsNothingOfAContextAfterItsEnd) {
  const auto of_context = std::make_shared<int>();
  for (int i = 0; i < 200; ++i) {  // what a thread still holds after `wake` is a matter of microseconds
    FairQueue queue(2);
    std::atomic<bool> woken = false;
    queue.add(
        "a", [] {}, [&woken, of_context] { woken = true; });
    while (!woken) std::this_thread::yield();
    queue.end();
    ASSERT_EQ(of_context.use_count(), 1);
    queue.end();
  }
}

}  // namespace
}  // namespace echotrain::server
