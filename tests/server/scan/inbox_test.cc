// A worker waits for its work asleep, or looks for it all the time.
#include "server/scan/inbox.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

Work readouts(std::size_t n) { return std::vector<protocol::Acquisition>(n); }

TEST(Inbox, WhoSpinsTakesWhatComesWithoutSleeping) {
  Inbox inbox(1 << 20, [] {});
  int slept = 0;
  const auto begin = Clock::now();
  const Inbox::Waiting waiting{20s, true, [&](bool sleeps) { slept += sleeps ? 1 : 0; }};
  for (std::size_t n = 1; n <= 3; ++n) {
    std::jthread other([&] {
      std::this_thread::sleep_for(20ms);
      inbox.push(readouts(n));
    });
    const Inbox::Taken taken = inbox.take(waiting);
    ASSERT_TRUE(taken.work);
    EXPECT_EQ(std::get<std::vector<protocol::Acquisition>>(*taken.work).size(), n);
  }
  std::jthread other([&] {
    std::this_thread::sleep_for(20ms);
    inbox.finish(End::complete);
  });
  const Inbox::Taken taken = inbox.take(waiting);
  EXPECT_FALSE(taken.work);
  EXPECT_EQ(taken.end, End::complete);
  EXPECT_EQ(slept, 0);
  EXPECT_LT(Clock::now() - begin, 10s) << "not only when the time of a spin was over";
}

TEST(Inbox, WhoWaitsInVainSaysSoAndSleepsUntilSomethingComes) {
  for (const bool spins : {true, false}) {
    Inbox inbox(1 << 20, [] {});
    std::vector<bool> told;
    std::jthread other([&] {
      std::this_thread::sleep_for(60ms);
      inbox.push(readouts(1));
    });
    const auto begin = Clock::now();
    EXPECT_TRUE(inbox.take({5ms, spins, [&](bool on) { told.push_back(on); }}).work);
    EXPECT_GE(Clock::now() - begin, 5ms);
    EXPECT_EQ(told, (std::vector<bool>{true, false}));
    inbox.push(readouts(1));
    EXPECT_TRUE(inbox.take({20s, spins, [&](bool on) { told.push_back(on); }}).work);
    EXPECT_EQ(told.size(), 2U) << "it was there";
  }
}

TEST(Inbox, CancelEndsTheSpin) {
  Inbox inbox(1 << 20, [] {});
  std::jthread other([&] {
    std::this_thread::sleep_for(20ms);
    inbox.cancel();
  });
  const auto begin = Clock::now();
  const Inbox::Taken taken = inbox.take({20s, true, nullptr});
  EXPECT_FALSE(taken.work || taken.end);
  EXPECT_LT(Clock::now() - begin, 10s);
}

/// Work that was taken counts until the worker comes again; while it spins, it is done.
TEST(Inbox, WhatWasTakenIsDoneWhileTheWorkerSpins) {
  Inbox inbox(1, [] {});
  inbox.push(readouts(1));
  ASSERT_TRUE(inbox.take({20s, true, nullptr}).work);
  EXPECT_TRUE(inbox.full());
  std::jthread other([&] {
    const auto end = Clock::now() + 10s;
    while (inbox.full() && Clock::now() < end) std::this_thread::sleep_for(1ms);
    EXPECT_FALSE(inbox.full());
    inbox.finish(End::complete);
  });
  EXPECT_TRUE(inbox.take({20s, true, nullptr}).end);
}

TEST(Inbox, SaysOnceWhenItIsEmptyToWhoAsks) {
  int room = 0;
  Inbox inbox(1 << 20, [&] { ++room; });
  EXPECT_FALSE(inbox.notify_when_empty()) << "it is empty";
  inbox.push(readouts(1));
  EXPECT_FALSE(inbox.full());
  EXPECT_TRUE(inbox.notify_when_empty());
  ASSERT_TRUE(inbox.take().work);
  EXPECT_EQ(room, 0) << "the worker has it";
  inbox.push(readouts(1));
  ASSERT_TRUE(inbox.take().work);
  EXPECT_EQ(room, 0) << "more has come";
  inbox.finish(End::complete);
  EXPECT_TRUE(inbox.take().end);
  EXPECT_EQ(room, 1);
  EXPECT_TRUE(inbox.take().end);
  EXPECT_EQ(room, 1) << "nobody has asked again";
}

/// A pause is for who sleeps; who spins looks again.
TEST(Inbox, PausedWorkerTakesNothingUntilItGoesOn) {
  Inbox inbox(1 << 20, [] {});
  std::atomic<bool> took = false;
  std::jthread worker([&] {
    EXPECT_TRUE(inbox.take({1ms, true, nullptr}).work);
    took = true;
  });
  const auto end = Clock::now() + 10s;
  while (!inbox.pause() && Clock::now() < end) std::this_thread::sleep_for(1ms);
  inbox.push(readouts(1));
  std::this_thread::sleep_for(30ms);
  EXPECT_FALSE(took);
  inbox.resume();
  worker.join();
  EXPECT_TRUE(took);
}

/// `n` readouts that keep `bytes` of samples each.
Work large_readouts(std::size_t n, std::size_t bytes) {
  static const std::vector<std::byte> samples(Inbox::kCacheBytes);
  std::vector<protocol::Acquisition> batch(n);
  for (protocol::Acquisition& each : batch) each.data.bytes = std::span(samples).first(bytes);
  return batch;
}

std::size_t count(const Inbox::Taken& taken) {
  return std::get<std::vector<protocol::Acquisition>>(*taken.work).size();
}

/// Data in the worker's hands are most likely in its caches; few data are to wait.
TEST(Inbox, ReaderThatHeardOfPlentyIsCalledWhenHalfOfItIsLeft) {
  int called = 0;
  Inbox inbox(64 << 20, [&] { ++called; });
  constexpr std::size_t kHalf = Inbox::kCacheBytes / 2, kMany = Inbox::kBatchReadouts;
  inbox.push(large_readouts(kMany, kHalf / kMany));
  EXPECT_FALSE(inbox.exceeds_cache());
  inbox.push(large_readouts(kMany, kHalf / kMany));
  EXPECT_TRUE(inbox.exceeds_cache());
  inbox.push(large_readouts(kMany, kHalf / kMany));
  EXPECT_FALSE(inbox.full());
  ASSERT_TRUE(inbox.take().work);
  EXPECT_EQ(called, 0) << "two halves wait";
  EXPECT_TRUE(inbox.exceeds_cache());
  ASSERT_TRUE(inbox.take().work);
  EXPECT_EQ(called, 0) << "more than half";  // readouts count with their heads
  ASSERT_TRUE(inbox.take().work);
  EXPECT_EQ(called, 1);
  EXPECT_GT(inbox.bytes(), kHalf);
  EXPECT_FALSE(inbox.exceeds_cache()) << "the worker has it";
  inbox.push(large_readouts(1, Inbox::kCacheBytes));
  ASSERT_TRUE(inbox.take().work);
  EXPECT_EQ(called, 1) << "nobody has asked";
}

TEST(Inbox, ManySmallReadoutsAreNotMovedTogether) {
  Inbox inbox(64 << 20, [] {});
  for (const std::size_t n : {100, 100, 200, 10, 20}) inbox.push(readouts(n));
  EXPECT_EQ(count(inbox.take()), 400U);
  EXPECT_EQ(inbox.waiting(), 30);
  EXPECT_EQ(count(inbox.take()), 30U);
}

TEST(Inbox, BatchOfLargeReadoutsHasItsBoundInBytes) {
  Inbox inbox(64 << 20, [] {});
  for (int i = 0; i < 5; ++i) inbox.push(large_readouts(2, Inbox::kBatchBytes / 5));
  EXPECT_EQ(count(inbox.take()), 4U);
  EXPECT_EQ(count(inbox.take()), 4U);
  EXPECT_EQ(count(inbox.take()), 2U);
}

}  // namespace
}  // namespace echotrain::server
