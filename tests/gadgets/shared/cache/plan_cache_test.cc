// Plans and trajectories that sessions share.
#include "gadgets/shared/cache/plan_cache.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "gadgets/shared/cache/trajectory_store.h"
#include "gadgets/shared/program/scan_environment.h"
#include "tests/support/resources.h"

namespace echotrain {
namespace {

using numerics::Backend;
using numerics::Context;

std::shared_ptr<SamplePositions> positions(int count, double step) {
  auto out = std::make_shared<SamplePositions>();
  for (int s = 0; s < 2 * count; ++s) out->coordinates.push_back(-0.5 + std::fmod(step * s, 1.0));
  out->digest = numerics::trajectory_digest({out->coordinates.data(), {count, 2}});
  return out;
}

PlanCache::Request request(std::shared_ptr<const SamplePositions> where, std::int64_t size = 16) {
  return {.positions = std::move(where), .image = {size, size}, .options = {5, 1.5, numerics::NufftUse::adjoint}};
}

TEST(PlanCache, GivesTheSamePlanForTheSameRequestOnly) {
  PlanCache cache(1 << 24);
  Context one(Backend::cpu, test_resources()), two(Backend::cpu, test_resources());
  const auto first = cache.get(one, request(positions(100, 0.013)));
  EXPECT_FALSE(first.reused);
  EXPECT_GT(first.made_ms, 0);
  const auto second = cache.get(two, request(positions(100, 0.013)));
  EXPECT_TRUE(second.reused);
  EXPECT_EQ(first.object, second.object);
  EXPECT_EQ(one.bytes_in_use(), 0u);  // the plan belongs to no session
  for (const PlanCache::Request& other :
       {request(positions(100, 0.014)), request(positions(99, 0.013)), request(positions(100, 0.013), 18)})
    EXPECT_NE(cache.get(one, other).object, first.object);
  PlanCache::Request other = request(positions(100, 0.013));
  other.options.kernel_width = 4;
  EXPECT_NE(cache.get(one, other).object, first.object);
  other = request(positions(100, 0.013));
  other.voxel_ratio = {0.5, 1, 1};
  EXPECT_NE(cache.get(one, other).object, first.object);
  EXPECT_EQ(cache.objects(), 6u);
  const CacheCounts counts = cache.counts();
  EXPECT_EQ(counts.hits, 1u);
  EXPECT_EQ(counts.misses, 6u);
  EXPECT_EQ(counts.entries, 6u);
  EXPECT_EQ(counts.bytes, cache.bytes());
}

// A trajectory made to have the digest of another must not get the other's plan.
TEST(PlanCache, ComparesPositionsAndNotTheirDigest) {
  PlanCache cache(1 << 24);
  Context session(Backend::cpu, test_resources());
  const auto honest = positions(100, 0.013), forged = positions(100, 0.014);
  forged->digest = honest->digest;
  EXPECT_NE(cache.get(session, request(honest)).object, cache.get(session, request(forged)).object);
  // Dropped samples have positions that are no numbers, which are equal here all the same.
  const auto a = positions(100, 0.013), b = positions(100, 0.013);
  a->coordinates[7] = b->coordinates[7] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(cache.get(session, request(a)).object, cache.get(session, request(b)).object);
}

// Two caches of one budget: what goes is what was unused for longest in either of them.
TEST(PlanCache, GivesWayWhenTheBudgetNeedsItsMemory) {
  numerics::ResourceOptions options = test_resource_options();
  options.memory_budget = 64 << 20;
  const auto resources = std::make_shared<numerics::Resources>(options);
  const std::shared_ptr<numerics::MemoryBudget> budget = resources->memory();
  Context session(Backend::cpu, resources);
  PlanCache one(1 << 30, budget), other(1 << 30, budget);
  const auto held = one.get(session, request(positions(1000, 0.01))).object;
  one.get(session, request(positions(1000, 0.02)));
  other.get(session, request(positions(1000, 0.03)));
  EXPECT_TRUE(one.get(session, request(positions(1000, 0.02))).reused);
  EXPECT_EQ(session.account()->used(), 0u) << "the caches pay";
  EXPECT_GE(budget->used(), one.bytes() + other.bytes());
  numerics::MemoryAccount hungry(budget);
  const std::uint64_t before = budget->used();
  hungry.take(budget->left() - 4096);
  hungry.take(8192);  // the spare blocks, or the plan of the other cache
  while (other.objects() == 1) hungry.take(4096);
  EXPECT_EQ(one.objects(), 2u) << "used later";
  while (one.objects() == 2) hungry.take(4096);
  EXPECT_THROW(hungry.take(before + (64 << 20)), numerics::OverBudget);
  EXPECT_EQ(one.objects(), 1u) << "this one is held";
  EXPECT_TRUE(one.get(session, request(positions(1000, 0.01))).reused);
  EXPECT_LE(budget->used(), budget->bound());
}

TEST(PlanCache, DropsWhatWasUnusedForLongestAndIsInNoUse) {
  Context session(Backend::cpu, test_resources());
  std::uint64_t each = 0;
  {
    PlanCache cache(1 << 24);
    cache.get(session, request(positions(1000, 0.01)));
    each = cache.bytes();
  }
  PlanCache cache(3 * each + each / 2);
  const auto held = cache.get(session, request(positions(1000, 0.01))).object;
  cache.get(session, request(positions(1000, 0.02)));
  cache.get(session, request(positions(1000, 0.03)));
  EXPECT_TRUE(cache.get(session, request(positions(1000, 0.02))).reused);
  EXPECT_FALSE(cache.get(session, request(positions(1000, 0.04))).reused);
  EXPECT_LE(cache.bytes(), 3 * each + each / 2);
  EXPECT_TRUE(cache.get(session, request(positions(1000, 0.02))).reused);   // used again in between
  EXPECT_TRUE(cache.get(session, request(positions(1000, 0.01))).reused);   // held
  EXPECT_FALSE(cache.get(session, request(positions(1000, 0.03))).reused);  // the one that went
}

TEST(PlanCache, APlanThatDoesNotFitIsTheSessionsOwn) {
  for (const std::uint64_t bytes : {0, 1000}) {
    PlanCache cache(bytes);
    Context session(Backend::cpu, test_resources());
    const auto made = cache.get(session, request(positions(1000, 0.01)));
    EXPECT_EQ(session.bytes_in_use(), made.object->bytes());
    EXPECT_EQ(cache.objects(), 0u);
    Context poor(Backend::cpu, test_resources(), {.memory_budget = 1000});
    EXPECT_THROW(cache.get(poor, request(positions(1000, 0.01))), numerics::ResourceError);
  }
}

TEST(PlanCache, IsMadeOnceForSessionsThatAskTogether) {
  PlanCache cache(1 << 24);
  std::vector<std::thread> sessions;
  std::vector<PlanCache::Result> results(8);
  for (auto& result : results)
    sessions.emplace_back([&] {
      Context session(Backend::cpu, test_resources());
      result = cache.get(session, request(positions(5000, 0.013)));
    });
  for (auto& session : sessions) session.join();
  int made = 0;
  for (const auto& result : results) {
    EXPECT_EQ(result.object, results[0].object);
    made += result.reused ? 0 : 1;
  }
  EXPECT_EQ(made, 1);
}

/// Objects have `held` of it in all; an object takes some memory beside its request.
constexpr std::uint64_t kUnit = 4096;
/// A value that takes no memory itself, but whose request holds some.
struct Token {
  std::uint64_t bytes() const { return 0; }
};
struct TokenRequest {
  using Made = Token;
  int number = 0;
  std::uint64_t held = 0;
  std::function<void()> on_make, on_same;
  bool same(const TokenRequest& other) const {
    if (on_same) on_same();
    return number == other.number;
  }
  std::uint64_t bytes() const { return held == 0 ? 0 : held * kUnit - DeviceCache<TokenRequest>::kOverheadBytes; }
  std::shared_ptr<const Made> make(Context& /*context*/) const {
    if (on_make) on_make();
    return std::make_shared<const Token>();
  }
};

TEST(DeviceCache, CountsWhatRequestsHold) {
  DeviceCache<TokenRequest> cache(1000 * kUnit);
  Context session(Backend::cpu, test_resources());
  for (int i = 0; i < 10; ++i) cache.get(session, {.number = i, .held = 300});
  EXPECT_EQ(cache.objects(), 3u);
  EXPECT_EQ(cache.bytes(), 900 * kUnit);
  EXPECT_TRUE(cache.get(session, {.number = 9, .held = 300}).reused);
  EXPECT_FALSE(cache.get(session, {.number = 0, .held = 300}).reused);
}

// A plan that takes long must not hold up sessions that ask for another; one that fails must not either.
TEST(DeviceCache, SessionsWaitForTheSameThingOnly) {
  DeviceCache<TokenRequest> cache(1000 * kUnit);
  Context session(Backend::cpu, test_resources());
  std::promise<void> began, may_end;
  std::thread slow([&] {
    Context own(Backend::cpu, test_resources());
    cache.get(own, {.number = 1, .on_make = [&] {
                      began.set_value();
                      may_end.get_future().wait();
                    }});
  });
  began.get_future().wait();
  EXPECT_FALSE(cache.get(session, {.number = 2}).reused);  // would wait for ever
  std::thread same([&] {
    Context own(Backend::cpu, test_resources());
    EXPECT_TRUE(cache.get(own, {.number = 1}).reused);
  });
  may_end.set_value();
  slow.join();
  same.join();
  EXPECT_THROW(cache.get(session, {.number = 3, .on_make = [] { throw std::invalid_argument("no"); }}),
               std::invalid_argument);
  EXPECT_FALSE(cache.get(session, {.number = 3}).reused);
}

// Whoever waits for another's object must not wait for a session that is gone.
TEST(DeviceCache, AnotherSessionMakesWhatAStoppedOneBegan) {
  DeviceCache<TokenRequest> cache(1000 * kUnit);
  std::stop_source source;
  std::promise<void> began;
  std::thread stopped([&] {
    Context own(Backend::cpu, test_resources(), {.stop_token = source.get_token()});
    const TokenRequest request{.number = 1, .on_make = [&] {
                                 began.set_value();
                                 for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) own.check_stop();
                               }};
    EXPECT_THROW(cache.get(own, request), numerics::Stopped);
  });
  began.get_future().wait();
  std::atomic<int> made = 0, reused = 0;
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i)
    others.emplace_back([&] {
      Context own(Backend::cpu, test_resources());
      const auto result = cache.get(own, {.number = 1, .on_make = [&] { ++made; }});
      EXPECT_TRUE(result.object);
      reused += result.reused ? 1 : 0;
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // most of them wait by now
  EXPECT_EQ(made, 0);
  source.request_stop();
  stopped.join();
  for (auto& other : others) other.join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(reused, 3);
}

TEST(DeviceCache, ASessionThatWaitsCanBeStopped) {
  DeviceCache<TokenRequest> cache(1000 * kUnit);
  std::promise<void> began, may_end;
  std::thread maker([&] {
    Context own(Backend::cpu, test_resources());
    cache.get(own, {.number = 1, .on_make = [&] {
                      began.set_value();
                      may_end.get_future().wait();
                    }});
  });
  began.get_future().wait();
  std::stop_source source;
  std::thread waits([&] {
    Context own(Backend::cpu, test_resources(), {.stop_token = source.get_token()});
    EXPECT_THROW(cache.get(own, {.number = 1}), numerics::Stopped);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  source.request_stop();
  waits.join();  // or for ever
  may_end.set_value();
  maker.join();
}

// Where the maker hangs, it is the only one.
TEST(DeviceCache, ASessionThatWaitsForAMakerDoesNotHang) {
  DeviceCache<TokenRequest> cache(1000 * kUnit);
  const auto maker = std::make_shared<numerics::Progress>(), waiter = std::make_shared<numerics::Progress>();
  std::promise<void> began, may_end;
  std::thread makes([&] {
    numerics::Progress::of_thread() = maker;
    Context own(Backend::cpu, test_resources());
    cache.get(own, {.number = 1, .on_make = [&] {
                      began.set_value();
                      may_end.get_future().wait();
                    }});
  });
  began.get_future().wait();
  std::thread waits([&] {
    numerics::Progress::of_thread() = waiter;
    Context own(Backend::cpu, test_resources());
    EXPECT_TRUE(cache.get(own, {.number = 1}).reused);
  });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!waiter->waits() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(waiter->waits());
  EXPECT_FALSE(maker->waits());
  may_end.set_value();
  makes.join();
  waits.join();
  EXPECT_FALSE(waiter->waits());
}

// A scan that hangs is told to stop when it is given up, and does not hear it. Who waits makes the object itself.
TEST(DeviceCache, WhoWaitsPassesOverAMakerThatHangs) {
  DeviceCache<TokenRequest> cache(1000 * kUnit);
  std::stop_source given_up;
  std::promise<void> began, may_end, looked;
  auto hangs = std::async(std::launch::async, [&] {
    Context own(Backend::cpu, test_resources(), {.stop_token = given_up.get_token()});
    return cache.get(own, {.number = 1,
                           .on_make =
                               [&] {
                                 began.set_value();
                                 may_end.get_future().wait();
                               },
                           .on_same =
                               [&, first = true]() mutable {
                                 if (std::exchange(first, false)) looked.set_value();
                               }});
  });
  began.get_future().wait();
  auto waits = std::async(std::launch::async, [&] {
    Context own(Backend::cpu, test_resources());
    return cache.get(own, {.number = 1});
  });
  looked.get_future().wait();
  EXPECT_EQ(cache.counts().misses, 1u);  // has the cache's lock: the other waits by now
  given_up.request_stop();
  const bool passed_over = waits.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  EXPECT_TRUE(passed_over);
  if (passed_over) {
    const auto made = waits.get();
    EXPECT_FALSE(made.reused);
    Context later(Backend::cpu, test_resources());
    EXPECT_TRUE(cache.get(later, {.number = 1}).reused);
    may_end.set_value();
    EXPECT_EQ(hangs.get().object, made.object) << "it has come back: one object is kept, for all";
    EXPECT_EQ(cache.objects(), 1u);
  } else {
    may_end.set_value();
  }
}

/// One session of a client.
struct Client {
  explicit Client(const std::string& name) : session(Backend::cpu, test_resources()) {
    session.cache<ScanEnvironment>().client = name;
  }
  /// True if it was there.
  bool finds(DeviceCache<TokenRequest>& cache, int number, std::uint64_t held = 100) {
    return cache.get(session, {.number = number, .held = held}).reused;
  }
  Context session;
};

TEST(DeviceCache, WhatOneClientKeepsPushesNothingOutOfAnothersPart) {
  DeviceCache<TokenRequest> cache(1000 * kUnit);
  Client a("A"), b("B");
  for (const int number : {1, 2, 3, 4}) EXPECT_FALSE(a.finds(cache, number));
  for (int number = 100; number < 150; ++number) b.finds(cache, number);
  for (const int number : {1, 2, 3, 4}) EXPECT_TRUE(a.finds(cache, number)) << number;
  EXPECT_EQ(cache.bytes(), 1000 * kUnit) << "all the room is used";
  for (int number = 144; number < 150; ++number) EXPECT_TRUE(b.finds(cache, number)) << "the six used last";
  EXPECT_FALSE(b.finds(cache, 143));
  EXPECT_FALSE(a.finds(cache, 5));
  EXPECT_TRUE(a.finds(cache, 1)) << "who has most is the one to lose";
  EXPECT_FALSE(b.finds(cache, 200, 600)) << "it would take A's part";
  EXPECT_FALSE(b.finds(cache, 200, 600)) << "and so is not kept";
  EXPECT_TRUE(a.finds(cache, 2));
}

TEST(DeviceCache, AnObjectOfTwoClientsStaysWhenOneOfThemLosesIt) {
  DeviceCache<TokenRequest> cache(1000 * kUnit);
  Client a("A"), b("B");
  EXPECT_FALSE(a.finds(cache, 1));
  EXPECT_TRUE(b.finds(cache, 1)) << "one object for all";
  for (int number = 100; number < 150; ++number) b.finds(cache, number);
  EXPECT_TRUE(a.finds(cache, 1));
  for (int number = 200; number < 250; ++number) a.finds(cache, number);
  for (int number = 300; number < 350; ++number) b.finds(cache, number);
  EXPECT_FALSE(b.finds(cache, 1)) << "both have lost it";
}

TEST(DeviceCache, WhatNobodyUsesForLongIsInNoPart) {
  DeviceCache<TokenRequest> cache(1000 * kUnit, std::make_shared<numerics::MemoryBudget>(), std::chrono::seconds(-1));
  Client a("A"), b("B");
  a.finds(cache, 1);
  for (int number = 100; number < 110; ++number) b.finds(cache, number);
  EXPECT_FALSE(a.finds(cache, 1));
}

// What small plans take beside their arrays counts.
TEST(PlanCache, PaysForWhatTinyPlansTake) {
#ifdef ECHOTRAIN_SANITIZED
  GTEST_SKIP() << "a sanitizer's heap has more";
#endif
  const auto resources = test_resources();
  Context session(Backend::cpu, resources);
  PlanCache cache(1 << 30, resources->memory());
  cache.get(session, request(positions(4, 0.01), 8));
  const std::uint64_t before = mallinfo2().uordblks, paid = resources->memory()->used();
  for (int i = 0; i < 2000; ++i) cache.get(session, request(positions(4, 0.02 + 1e-5 * i), 8));
  ASSERT_EQ(cache.objects(), 2001u);
  const std::uint64_t took = mallinfo2().uordblks - before, pays = resources->memory()->used() - paid;
  EXPECT_GE(pays, took) << took / 2000 << " bytes for each plan";
  EXPECT_LE(pays, 2 * took) << took / 2000 << " bytes for each plan";
}

// A new entry looks at all that are kept, which a sanitizer makes a hundred times as slow: fewer there.
#ifdef ECHOTRAIN_SANITIZED
constexpr int kFewer = 8;
#else
constexpr int kFewer = 1;
#endif

TEST(DeviceCache, IsBoundedInNumber) {
  constexpr int kMost = DeviceCache<TokenRequest>::kMostEntries / kFewer;
#ifdef ECHOTRAIN_SANITIZED
  DeviceCache<TokenRequest> cache(1 << 30, std::make_shared<numerics::MemoryBudget>(), kShareLapses, kMost);
#else
  DeviceCache<TokenRequest> cache(1 << 30);
#endif
  Context session(Backend::cpu, test_resources());
  const auto held = cache.get(session, {.number = -1}).object;
  for (int i = 0; i < 2 * kMost; ++i) cache.get(session, {.number = i});
  EXPECT_EQ(cache.objects(), static_cast<std::size_t>(kMost));
  EXPECT_TRUE(cache.get(session, {.number = -1}).reused) << "it is held";
  EXPECT_TRUE(cache.get(session, {.number = kMost + 1}).reused) << "the ones used last";
  EXPECT_FALSE(cache.get(session, {.number = kMost}).reused);
}

TEST(DeviceCache, PartsOfClientsHoldForTheNumberToo) {
  DeviceCache<TokenRequest> cache(1 << 30, std::make_shared<numerics::MemoryBudget>(), kShareLapses, 10);
  Client a("A"), b("B");
  for (const int number : {1, 2, 3, 4}) EXPECT_FALSE(a.finds(cache, number));
  for (int number = 100; number < 150; ++number) b.finds(cache, number, 1);
  EXPECT_EQ(cache.objects(), 10u);
  for (const int number : {1, 2, 3, 4}) EXPECT_TRUE(a.finds(cache, number)) << number;
  for (int number = 144; number < 150; ++number) EXPECT_TRUE(b.finds(cache, number, 1)) << "the six used last";
  EXPECT_FALSE(b.finds(cache, 143));
}

/// Counts how often a budget looks through all that is kept.
class Walks final : public numerics::ClientEvictable {
 public:
  explicit Walks(numerics::MemoryBudget& budget) : budget_(budget) { budget_.add_evictable(*this); }
  ~Walks() override { budget_.remove_evictable(*this); }
  int count() const { return count_; }

 private:
  std::optional<std::uint64_t> unused_since() const override {
    ++count_;
    return std::nullopt;
  }
  void evict(std::uint64_t) override {}
  Shares shares() const override { return {}; }
  void evict_of(const std::string&, std::uint64_t) override {}
  numerics::MemoryBudget& budget_;
  mutable int count_ = 0;
};

// Each walk brings a quarter of what is still wanted, or 1/1024 of the budget, which is an eighth of all that is wanted
// here: at most 8 and, where the cache that had the oldest things has no more, one for each cache and client. Who takes
// little and asks again gets a 64th of a cache by each walk, some 50 KB of what are 1 MB then.
TEST(DeviceCache, ThousandsOfThingsGoInAFewWalks) {
  constexpr int kThings = 4000 / kFewer;
  const auto budget = std::make_shared<numerics::MemoryBudget>((std::uint64_t{1} << 30) / kFewer);
  DeviceCache<TokenRequest> plans(1 << 30, budget), operators(1 << 30, budget);
  TrajectoryStore trajectories(1 << 30, budget);
  Client a("A"), b("B");
  for (int i = 0; i < kThings; ++i) {
    a.finds(plans, i, 0);
    b.finds(operators, i, 0);
    const auto known = std::make_shared<KnownTrajectory>();
    known->positions = std::make_shared<SamplePositions>();
    known->raw.resize(100);
    trajectories.add("A", std::to_string(i), known, "A");
  }
  const std::uint64_t kept = plans.bytes() + operators.bytes();
  numerics::MemoryAccount hungry(budget);
  hungry.take(budget->left());
  const Walks walks(*budget);
  hungry.take(kept / 2);
  EXPECT_LE(walks.count(), 20);
  EXPECT_LE(budget->used(), budget->bound());
  EXPECT_LE(budget->left(), kept / 64) << "no more went than a walk brings beside what was wanted";
  EXPECT_TRUE(b.finds(operators, kThings - 1, 0));
  const int before = walks.count();
  for (int i = 0; i < 1000 / kFewer; ++i) hungry.take(1000);
  EXPECT_LE(walks.count() - before, 40);
  budget->evict_unused();
  EXPECT_EQ(plans.objects() + operators.objects(), 0u);
  EXPECT_TRUE(trajectories.find("A", std::to_string(kThings - 1)).empty());
}

// Two caches of one budget, which is smaller than they may be.
TEST(DeviceCache, WhoHasMostLosesFirstWhereTheBudgetNeedsTheMemory) {
  const auto budget = std::make_shared<numerics::MemoryBudget>(10000 * kUnit);
  DeviceCache<TokenRequest> operators(100000 * kUnit, budget), plans(100000 * kUnit, budget);
  TrajectoryStore trajectories(100000, budget);
  Client a("A"), b("B");
  const auto mine = std::make_shared<KnownTrajectory>();
  mine->positions = std::make_shared<SamplePositions>();
  trajectories.add("A", "key", mine, "A");
  for (const int number : {1, 2}) a.finds(plans, number);
  for (int number = 100; number < 150; ++number) b.finds(operators, number, 500);
  for (const int number : {1, 2}) EXPECT_TRUE(a.finds(plans, number));
  EXPECT_FALSE(trajectories.find("A", "key").empty());
  EXPECT_TRUE(b.finds(operators, 149, 500));
  EXPECT_LE(budget->used(), budget->bound());
}

std::shared_ptr<const KnownTrajectory> trajectory(std::size_t floats) {
  auto out = std::make_shared<KnownTrajectory>();
  out->raw.resize(floats);
  out->positions = std::make_shared<SamplePositions>();
  return out;
}

TEST(TrajectoryStore, KeepsTheMostRecentWithinItsBounds) {
  TrajectoryStore store(2600);
  const auto a = trajectory(100), b = trajectory(100), c = trajectory(100), huge = trajectory(1000);
  store.add("A", "one", a);
  store.add("A", "two", b);
  EXPECT_EQ(store.find("A", "one"), std::vector{a});
  EXPECT_TRUE(store.find("A", "three").empty());
  store.add("A", "one", c);  // two fit, at some 1,000 bytes each: the oldest goes
  EXPECT_EQ(store.find("A", "one"), std::vector{c});
  EXPECT_EQ(store.find("A", "two"), std::vector{b});
  store.add("A", "three", huge);
  EXPECT_TRUE(store.find("A", "three").empty());
  EXPECT_EQ(store.find("A", "one"), std::vector{c});
  TrajectoryStore many(1 << 20);
  for (std::size_t i = 0; i < TrajectoryStore::kPerKey + 3; ++i) many.add("A", "one", trajectory(1));
  EXPECT_EQ(many.find("A", "one").size(), TrajectoryStore::kPerKey);
}

// Small trajectories count with what they take beside their samples, though who made them pays for these; and they are
// not too many.
TEST(TrajectoryStore, ManySmallOnesAreBoundedAndCounted) {
  const auto budget = std::make_shared<numerics::MemoryBudget>(1 << 30);
  TrajectoryStore store(1 << 30, budget);
  const auto small = [&] {
    auto made = std::make_shared<KnownTrajectory>();
    made->positions = std::make_shared<SamplePositions>();
    made->paid = std::make_shared<numerics::MemoryShare>();
    return made;
  };
  store.add("A", "first", small());
  const std::size_t before = mallinfo2().uordblks;
  constexpr std::size_t kBeyond = TrajectoryStore::kMostEntries / (kFewer * kFewer);
  for (std::size_t i = 0; i < TrajectoryStore::kMostEntries + kBeyond; ++i) store.add("A", std::to_string(i), small());
  EXPECT_TRUE(store.find("A", "first").empty());
  EXPECT_TRUE(store.find("A", std::to_string(kBeyond - 1)).empty());
  EXPECT_FALSE(store.find("A", std::to_string(kBeyond)).empty());
#ifndef ECHOTRAIN_SANITIZED
  EXPECT_GE(budget->used(), mallinfo2().uordblks - before) << "the heap has no more than is counted";
#endif
}

TEST(TrajectoryStore, WhatOneClientLeavesIsNeitherFoundNorPushedOutByAnother) {
  TrajectoryStore store(4000);
  const auto mine = trajectory(100);
  store.add("A", "one", mine);
  EXPECT_TRUE(store.find("B", "one").empty());
  for (std::size_t i = 0; i < TrajectoryStore::kPerKey + 3; ++i) store.add("B", "one", trajectory(1));
  for (std::size_t i = 0; i < 40; ++i) store.add("B", "two", trajectory(100));  // 400 bytes and more, each
  EXPECT_EQ(store.find("A", "one"), std::vector{mine});
  EXPECT_FALSE(store.find("B", "two").empty());
}

}  // namespace
}  // namespace echotrain
