#include "gadgets/numerics/core/memory_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "tests/support/resources.h"

namespace echotrain::numerics {
namespace {

/// Parts of 10 bytes each, unused since the times given.
class Parts final : public Evictable {
 public:
  Parts(MemoryBudget& budget, std::vector<std::uint64_t> times) : budget_(budget), times_(std::move(times)) {
    budget_.add(10 * times_.size());
    budget_.add_evictable(*this);
  }
  ~Parts() override { budget_.remove_evictable(*this); }
  std::size_t left() const { return times_.size(); }

 private:
  std::optional<std::uint64_t> unused_since() const override {
    return times_.empty() ? std::nullopt : std::optional(times_.front());
  }
  void evict(std::uint64_t) override {
    times_.erase(times_.begin());
    budget_.give(10);
  }
  MemoryBudget& budget_;
  std::vector<std::uint64_t> times_;
};

TEST(MemoryBudget, DropsWhatWasUnusedForLongestWhereItNeedsRoom) {
  MemoryBudget budget(100);
  Parts one(budget, {2, 3, 9}), other(budget, {1, 4, 5});  // 60 bytes
  EXPECT_TRUE(budget.take(40));
  EXPECT_EQ(one.left() + other.left(), 6u) << "there was room";
  EXPECT_FALSE(budget.take_if_it_fits(1));
  EXPECT_TRUE(budget.take(25));
  EXPECT_EQ(one.left(), 1u) << "2 and 3 went";
  EXPECT_EQ(other.left(), 2u) << "and 1";
  EXPECT_EQ(budget.used(), 95u);
  EXPECT_FALSE(budget.take(36));
  EXPECT_EQ(budget.used(), 65u) << "nothing is taken, and all is dropped that could be";
  EXPECT_FALSE(budget.take(101)) << "more than all";
  EXPECT_TRUE(MemoryBudget().take(std::uint64_t{1} << 60)) << "without a bound";
}

/// Things of 10 bytes, each unused since its time.
class Shared final : public ClientEvictable {
 public:
  using Things = std::multimap<std::string, std::uint64_t>;
  Shared(MemoryBudget& budget, Things things) : budget_(budget), things_(std::move(things)) {
    budget_.add(10 * things_.size());
    budget_.add_evictable(*this);
  }
  ~Shared() override { budget_.remove_evictable(*this); }
  std::size_t of(const std::string& client) const { return things_.count(client); }

 private:
  Things::const_iterator oldest(const std::string* client) const {
    auto found = things_.end();
    for (auto at = things_.begin(); at != things_.end(); ++at)
      if ((client == nullptr || at->first == *client) && (found == things_.end() || at->second < found->second))
        found = at;
    return found;
  }
  std::optional<std::uint64_t> unused_since() const override {
    const auto found = oldest(nullptr);
    return found == things_.end() ? std::nullopt : std::optional(found->second);
  }
  void evict(std::uint64_t) override { take(oldest(nullptr)); }
  Shares shares() const override {
    Shares shares;
    for (const auto& [client, since] : things_) shares[client] = {10 * things_.count(client), oldest(&client)->second};
    return shares;
  }
  void evict_of(const std::string& client, std::uint64_t) override { take(oldest(&client)); }
  void take(Things::const_iterator thing) {
    things_.erase(thing);
    budget_.give(10);
  }
  MemoryBudget& budget_;
  Things things_;
};

TEST(MemoryBudget, DropsOfTheClientForWhomMostIsKept) {
  MemoryBudget budget(120);
  Shared one(budget, {{"A", 1}, {"A", 2}, {"B", 4}, {"B", 5}, {"B", 6}}), other(budget, {{"A", 3}, {"B", 7}, {"B", 8}});
  Parts nobodys(budget, {9, 10});  // 100 bytes in all
  EXPECT_TRUE(budget.take(40));
  EXPECT_EQ(one.of("A") + other.of("A"), 3u);
  EXPECT_EQ(one.of("B"), 1u) << "4 and 5 went";
  EXPECT_EQ(other.of("B"), 2u);
  EXPECT_TRUE(budget.take(20));
  EXPECT_EQ(one.of("A"), 1u) << "of equal ones what was unused for longest: 1; then 6";
  EXPECT_EQ(one.of("B"), 0u);
  EXPECT_EQ(nobodys.left(), 2u);
  EXPECT_TRUE(budget.take(50)) << "2, 7, 3 and 8, then what is nobody's";
  EXPECT_EQ(nobodys.left(), 1u);
}

/// As many things of 10 bytes as wanted for each client, which all go in one walk. Counts the walks.
class Thousands final : public ClientEvictable {
 public:
  Thousands(MemoryBudget& budget, std::map<std::string, std::uint64_t> things)
      : budget_(budget), things_(std::move(things)) {
    for (const auto& [client, count] : things_) budget_.add(10 * count);
    budget_.add_evictable(*this);
  }
  ~Thousands() override { budget_.remove_evictable(*this); }
  std::uint64_t of(const std::string& client) const { return things_.at(client); }
  int walks() const { return walks_; }

 private:
  std::optional<std::uint64_t> unused_since() const override { return 1; }
  void evict(std::uint64_t wanted) override {
    for (auto& [client, count] : things_) evict_of(client, wanted);
  }
  Shares shares() const override {
    ++walks_;
    Shares shares;
    for (const auto& [client, count] : things_)
      shares[client] = {10 * count, count == 0 ? std::nullopt : std::optional<std::uint64_t>(1)};
    return shares;
  }
  void evict_of(const std::string& client, std::uint64_t wanted) override {
    std::uint64_t& count = things_[client];
    const std::uint64_t gone = std::min(count, wanted / 10 + (wanted % 10 == 0 ? 0 : 1));
    count -= gone;
    budget_.give(10 * gone);
  }
  MemoryBudget& budget_;
  std::map<std::string, std::uint64_t> things_;
  mutable int walks_ = 0;
};

// Each walk takes a quarter of what is still wanted, but no less than 1/1024 of the bound, 195 bytes: of 120,000 bytes
// the first 18 walks leave less than 4 x 195; of 50,000 the first 15. So 22 and 19 walks, and some for what one
// client's last thing takes from another's share.
TEST(MemoryBudget, ThousandsOfThingsOfManyClientsGoInAFewWalks) {
  constexpr std::uint64_t kThings = 20000, kStep = kThings / 1024 + 1;
  std::map<std::string, std::uint64_t> things{{"A", 9000}, {"B", 5000}, {"C", 100}};
  for (int i = 0; i < 59; ++i) things["many" + std::to_string(i)] = 100;
  MemoryBudget budget(10 * kThings);
  Thousands kept(budget, things);
  ASSERT_EQ(budget.used(), budget.bound());
  EXPECT_TRUE(budget.take(10 * 12000));
  EXPECT_NEAR(static_cast<double>(kept.of("A")), 1000, kStep);
  EXPECT_NEAR(static_cast<double>(kept.of("B")), 1000, kStep);
  EXPECT_EQ(kept.of("C"), 100u) << "it has less than those";
  EXPECT_LE(kept.walks(), 30);
  EXPECT_TRUE(budget.take(10 * 5000)) << "of all, down to one level of 48";
  for (const char* each : {"A", "B", "C", "many0", "many58"})
    EXPECT_NEAR(static_cast<double>(kept.of(each)), 48, kStep) << each;
  EXPECT_LE(kept.walks(), 60);
  EXPECT_LE(budget.used(), budget.bound());
}

TEST(MemoryAccount, WhatIsReservedStaysForItsHolder) {
  const auto budget = std::make_shared<MemoryBudget>(100);
  MemoryAccount greedy(budget);
  greedy.take(10);
  {
    MemoryAccount modest(budget);
    EXPECT_TRUE(modest.reserve(40));
    EXPECT_EQ(budget->used(), 50u);
    greedy.take(50);
    EXPECT_THROW(greedy.take(1), OverBudget);
    EXPECT_EQ(greedy.used(), 60u) << "what failed is not counted";
    modest.take(40);
    EXPECT_EQ(budget->used(), 100u) << "it was counted when it was reserved";
    EXPECT_EQ(modest.borrowed(), 0u);
    EXPECT_THROW(modest.take(1), OverBudget);
    greedy.add(5);  // what is there already
    EXPECT_THROW(greedy.check(), OverBudget);
    EXPECT_NO_THROW(modest.check()) << "who exceeds its reservation is the one to go";
    greedy.give(30);
    modest.take(20);
    EXPECT_EQ(modest.borrowed(), 20u);
    EXPECT_EQ(budget->used(), 95u);
    EXPECT_TRUE(modest.reserve(60)) << "what was borrowed becomes reserved";
    EXPECT_EQ(modest.borrowed(), 0u);
    EXPECT_EQ(budget->used(), 95u);
    EXPECT_FALSE(modest.reserve(66));
    EXPECT_EQ(modest.reserved(), 60u);
    EXPECT_TRUE(modest.reserve(0));
    EXPECT_EQ(modest.borrowed(), 60u);
    EXPECT_EQ(budget->used(), 95u);
    modest.give(50);
    EXPECT_EQ(budget->used(), 45u);
  }
  EXPECT_EQ(budget->used(), 35u) << "an account gives back what it has";
  EXPECT_FALSE(greedy.reserve(101));
  EXPECT_TRUE(greedy.reserve(100));
}

TEST(MemoryAccount, WhoBorrowsLeavesWhatIsKept) {
  const auto budget = std::make_shared<MemoryBudget>(100);
  budget->keep(20);
  MemoryAccount borrower(budget), holder(budget);
  borrower.take(80);
  EXPECT_EQ(budget->left(), budget->kept());
  EXPECT_THROW(borrower.take(1), OverBudget);
  EXPECT_TRUE(holder.reserve(15)) << "what is reserved may take it";
  holder.take(15);
  holder.take(3);  // a quarter of the reservation, even of what is kept
  EXPECT_THROW(holder.take(1), OverBudget);
  EXPECT_NO_THROW(borrower.check()) << "what was kept is not full yet";
  holder.add(3);
  EXPECT_THROW(borrower.check(), OverBudget);
  EXPECT_THROW(holder.check(), OverBudget);
  holder.give(3);
  EXPECT_NO_THROW(holder.check());
  holder.give(3);
  Parts unused(*budget, {6});  // beyond the bound, and may go
  EXPECT_NO_THROW(borrower.check());
  EXPECT_EQ(unused.left(), 0u);
  budget->keep(5);
  borrower.give(10);
  borrower.take(10);
  budget->keep(200);
  EXPECT_THROW(borrower.take(1), OverBudget) << "all is kept, and more";
}

TEST(MemoryAccount, CountsWhatManyThreadsTakeAndGive) {
  const auto budget = std::make_shared<MemoryBudget>(1000000);
  MemoryAccount account(budget);
  ASSERT_TRUE(account.reserve(1000));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        account.take(700);  // now within the reservation, now beyond it
        account.give(700);
      }
      account.take(900);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(account.used(), 3600u);
  EXPECT_EQ(account.borrowed(), 2600u);
  EXPECT_EQ(budget->used(), 3600u);
}

TEST(MemoryAccount, PaysForTheArraysOfAContext) {
  ResourceOptions options = test_resource_options();
  options.memory_budget = 8 << 20;
  const auto resources = std::make_shared<Resources>(options);
  const auto first = std::make_shared<MemoryAccount>(resources->memory());
  const auto second = std::make_shared<MemoryAccount>(resources->memory());
  std::optional<Array<float>> array;
  {
    Context context(Backend::cpu, resources, {.account = first});
    array = context.allocate<float>({1 << 20});
    EXPECT_EQ(first->used(), 4u << 20);
    EXPECT_THROW(context.allocate<float>({(1 << 20) + 1}), OverBudget);
    context.hand_over(second);
    EXPECT_EQ(first->used(), 0u);
    EXPECT_EQ(second->used(), 4u << 20);
    const auto full = std::make_shared<MemoryAccount>(std::make_shared<MemoryBudget>(1 << 20));
    EXPECT_THROW(context.hand_over(full), OverBudget);
    EXPECT_EQ(second->used(), 4u << 20) << "nothing changed";
    Array<float> scratch = context.allocate<float>({1 << 18});
    scratch = {};
  }
  EXPECT_EQ(second->used(), 4u << 20) << "what the array holds, and nothing of what is kept for others";
  array.reset();
  EXPECT_EQ(second->used(), 0u);
  resources->memory()->evict_unused();
  EXPECT_EQ(resources->memory()->used(), 0u);
}

TEST(MemoryShare, IsGivenBackAtItsEnd) {
  const auto account = std::make_shared<MemoryAccount>(std::make_shared<MemoryBudget>(100));
  {
    MemoryShare share(account);
    share.grow_to(60);
    share.grow_to(50);
    EXPECT_EQ(account->used(), 60u);
    EXPECT_THROW(share.grow_to(101), OverBudget);
    EXPECT_EQ(account->used(), 60u);
    share.set(120);
    EXPECT_EQ(account->used(), 120u);
    share.set(10);
    EXPECT_EQ(account->used(), 10u);
  }
  EXPECT_EQ(account->used(), 0u);
  MemoryShare nobody;
  nobody.set(1000);
}

// Uses `count` blocks of 1 MiB in a context that then goes; returns where they lay.
std::set<const float*> use(const std::shared_ptr<Resources>& resources, int count) {
  Context context(Backend::cpu, resources);
  std::vector<Array<float>> arrays;
  std::set<const float*> places;
  for (int i = 0; i < count; ++i) places.insert(arrays.emplace_back(context.allocate<float>({1 << 18})).data());
  return places;
}

TEST(SpareMemory, BlocksThatNobodyUsesAreFreed) {
#ifdef ECHOTRAIN_SANITIZED
  GTEST_SKIP() << "under a sanitizer nothing is kept";
#endif
  const auto resources = test_resources();
  const auto first = use(resources, 2);
  EXPECT_FALSE(free_unused_blocks(*resources)) << "they came a moment ago";
  EXPECT_EQ(use(resources, 2), first);
  EXPECT_FALSE(free_unused_blocks(*resources)) << "they were used again";
  use(resources, 1);
  EXPECT_TRUE(free_unused_blocks(*resources)) << "one was not used again";
  EXPECT_TRUE(free_unused_blocks(*resources)) << "nor was the other one";
  EXPECT_FALSE(free_unused_blocks(*resources)) << "none is left";
}

TEST(SpareMemory, BelongsToItsResources) {
#ifdef ECHOTRAIN_SANITIZED
  GTEST_SKIP() << "under a sanitizer nothing is kept";
#endif
  const auto one = test_resources(), other = test_resources();
  use(one, 1);
  free_unused_blocks(*one);
  EXPECT_FALSE(free_unused_blocks(*other));
  EXPECT_TRUE(free_unused_blocks(*one));
}

// An array may outlive its context, and both may outlive the resources.
TEST(SpareMemory, OutlivesTheResources) {
  Array<float> array;
  {
    Context context(Backend::cpu, test_resources());
    array = context.zeros<float>({1 << 18});
  }
  EXPECT_EQ(array.data()[5], 0);
}

}  // namespace
}  // namespace echotrain::numerics
