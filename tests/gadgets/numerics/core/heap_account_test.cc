#include "gadgets/numerics/core/heap_account.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gadgets/numerics/core/thread_pool.h"
#include "gadgets/numerics/core/thread_scratch.h"

namespace echotrain::numerics {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class HeapAccountTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HeapAccount::counts()) GTEST_SKIP() << "a sanitizer's own operator new counts nothing";
  }
  const std::shared_ptr<MemoryBudget> budget_ = std::make_shared<MemoryBudget>(256 * kMiB);
  const std::shared_ptr<MemoryAccount> account_ = std::make_shared<MemoryAccount>(budget_);
};

TEST_F(HeapAccountTest, CountsWhatIsAllocatedInAScopeUntilItIsFreed) {
  HeapAccount heap(account_);
  auto outside = std::make_unique<std::vector<char>>(kMiB);
  EXPECT_EQ(heap.bytes(), 0);
  std::vector<std::unique_ptr<std::vector<char>>> kept(3);
  {
    const HeapScope scope(&heap);
    for (auto& each : kept) each = std::make_unique<std::vector<char>>(kMiB);
    outside.reset();  // of nobody: nothing is given back for it
  }
  EXPECT_GE(heap.bytes(), 3 * kMiB);
  EXPECT_LE(heap.bytes(), 3 * kMiB + 3 * 8192);  // a page for each mapped block, and heads
  EXPECT_GE(budget_->used(), 3 * kMiB);
  std::thread([&] { kept[0].reset(); }).join();  // whoever frees it
  EXPECT_LT(heap.bytes(), 2 * kMiB + 2 * 8192);
  kept.clear();
  EXPECT_EQ(heap.bytes(), 0);
  heap.check();
  EXPECT_EQ(budget_->used(), 0);
}

TEST_F(HeapAccountTest, CountsEachNodeAtWhatTheAllocatorTakes) {
  HeapAccount heap(account_);
  constexpr int kNodes = 100'000;
  std::map<int, int> nodes;
  {
    const HeapScope scope(&heap);
    for (int i = 0; i < kNodes; ++i) nodes[i] = i;
  }
  // A node has three pointers, a colour and two ints: 40 bytes; with the tag and glibc's head 64.
  EXPECT_GE(heap.bytes(), kNodes * 64);
  EXPECT_LE(heap.bytes(), kNodes * 80);  // a rest of 16 bytes behind a block is too small to part from it
  nodes.clear();
  EXPECT_EQ(heap.bytes(), 0);
}

TEST_F(HeapAccountTest, KeepsAlignmentAndSize) {
  struct alignas(256) Wide {
    char bytes[256];
  };
  HeapAccount heap(account_);
  const HeapScope scope(&heap);
  for (int i = 1; i < 200; ++i) {
    const auto wide = std::make_unique<Wide[]>(static_cast<std::size_t>(i));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wide.get()) % 256, 0u);
    std::string text(static_cast<std::size_t>(i), 'x');
    EXPECT_EQ(text, std::string(static_cast<std::size_t>(i), 'x'));
  }
  EXPECT_EQ(heap.bytes(), 0);
}

TEST_F(HeapAccountTest, HelpersOfAPoolAllocateForTheirCaller) {
  HeapAccount heap(account_);
  ThreadPool pool(4);
  std::vector<std::unique_ptr<std::vector<char>>> kept(64);
  {
    const HeapScope scope(&heap);
    pool.parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // so that all four take part
      for (; begin < end; ++begin)
        kept[static_cast<std::size_t>(begin)] = std::make_unique<std::vector<char>>(kMiB / 2);
    });
  }
  EXPECT_GE(heap.bytes(), 32 * kMiB);
  kept.clear();
  EXPECT_LE(heap.bytes(), 4096);  // what the pool keeps for itself
}

TEST_F(HeapAccountTest, ALargeBlockFailsWhereTheBudgetLendsNoMore) {
  HeapAccount heap(account_);
  std::vector<std::vector<char>> kept;
  {
    const HeapScope scope(&heap);
    kept.reserve(1000);
    EXPECT_THROW(for (;;) kept.emplace_back(8 * kMiB), std::bad_alloc);
  }
  EXPECT_TRUE(heap.refused());
  EXPECT_GE(heap.bytes(), 256 * kMiB);
  EXPECT_LE(heap.bytes(), 256 * kMiB + HeapAccount::kLargeBlocks + 9 * kMiB);
  EXPECT_THROW(heap.check(), OverBudget);
  std::vector<char> of_nobody(8 * kMiB);  // others allocate as they did
  decltype(kept)().swap(kept);
  heap.check();
  EXPECT_EQ(budget_->used(), 0);
}

/// Others would be refused for it meanwhile, and it may never fit.
TEST_F(HeapAccountTest, ABlockThatWaitsForRoomIsNotCounted) {
  HeapAccount heap(account_);
  account_->add(200 * kMiB);
  std::atomic<bool> waits = true;
  std::thread other([&] {
    const HeapScope scope(&heap);
    EXPECT_THROW(std::vector<char>(200 * kMiB), std::bad_alloc);
    waits = false;
  });
  while (waits) EXPECT_LE(budget_->used(), 201 * kMiB);
  other.join();
  EXPECT_TRUE(heap.refused());
  EXPECT_EQ(heap.bytes(), 0);
  account_->give(200 * kMiB);
}

TEST_F(HeapAccountTest, ABlockGetsTheRoomOfWhatIsUnused) {
  struct Keeper final : Evictable {
    explicit Keeper(MemoryBudget& its_budget) : budget(its_budget) { budget.add(200 * kMiB); }
    std::optional<std::uint64_t> unused_since() const override {
      return kept ? std::optional<std::uint64_t>(1) : std::nullopt;
    }
    void evict(std::uint64_t) override {
      kept = false;
      budget.give(200 * kMiB);
    }
    MemoryBudget& budget;
    bool kept = true;
  } keeper(*budget_);
  budget_->add_evictable(keeper);
  HeapAccount heap(account_);
  std::atomic<bool> waits = true;
  std::thread other([&] {
    const HeapScope scope(&heap);
    EXPECT_NO_THROW(std::vector<char>(200 * kMiB));
    waits = false;
  });
  while (waits) budget_->grant_wishes();
  other.join();
  budget_->remove_evictable(keeper);
}

TEST_F(HeapAccountTest, ARefusalThatIsMadeGoodIsNone) {
  HeapAccount heap(account_);
  account_->add(256 * kMiB);
  const HeapScope scope(&heap);
  EXPECT_EQ(::operator new(64 * kMiB, std::nothrow), nullptr);
  EXPECT_FALSE(heap.refused());
  account_->give(256 * kMiB);
}

/// Every second block stays, and with it the page on which it is.
TEST_F(HeapAccountTest, PagesOfWhatWasFreedAreChargedToWhoFreedIt) {
  constexpr int kPairs = 8000;
  HeapAccount sparse(account_), dense(account_);
  std::vector<std::unique_ptr<char[]>> kept, freed;
  {
    const HeapScope scope(&sparse);
    for (int i = 0; i < kPairs; ++i) {
      freed.push_back(std::make_unique<char[]>(4000));
      kept.push_back(std::make_unique<char[]>(100));
    }
    freed.clear();
    freed.shrink_to_fit();
  }
  std::unique_ptr<char[]> other;
  {
    const HeapScope scope(&dense);
    other = std::make_unique<char[]>(16 * kMiB);
  }
  sparse.settle();
  const std::uint64_t used = account_->used();
  EXPECT_LT(used, 18 * kMiB);
  const std::uint64_t charged = HeapAccount::charge_holes(30 * kMiB);
  EXPECT_NEAR(static_cast<double>(charged), 30. * kMiB, kMiB);  // less than was freed: 31 MiB
  EXPECT_NEAR(static_cast<double>(account_->used() - used), 30. * kMiB, kMiB);
  EXPECT_NEAR(static_cast<double>(HeapAccount::charge_holes(0)), 30. * kMiB, kMiB) << "they are still there";
  {
    const HeapScope scope(&sparse);
    for (int i = 0; i < kPairs / 2; ++i) freed.push_back(std::make_unique<char[]>(4000));
  }
  EXPECT_NEAR(static_cast<double>(account_->used() - used), 30. * kMiB, kMiB) << "what fills holes is charged already";
  EXPECT_NEAR(static_cast<double>(HeapAccount::charge_holes(-10 * static_cast<std::int64_t>(kMiB))), 5. * kMiB,
              2. * kMiB);
  EXPECT_EQ(HeapAccount::charge_holes(-64 * static_cast<std::int64_t>(kMiB)), 0u);
  EXPECT_NEAR(static_cast<double>(account_->used()), static_cast<double>(used) + 16. * kMiB, kMiB);
}

TEST_F(HeapAccountTest, ChargesOfLibrariesCountAsBlocks) {
  auto heap = std::make_unique<HeapAccount>(account_);
  std::optional<HeapCharge> outside(kMiB), kept, outlives;
  {
    const HeapScope scope(heap.get());
    kept.emplace(kMiB);
    outlives.emplace(kMiB);
    EXPECT_THROW(HeapCharge(512 * kMiB), std::bad_alloc);
  }
  EXPECT_TRUE(heap->refused());
  EXPECT_EQ(heap->bytes(), 2 * kMiB);
  kept.reset();
  EXPECT_EQ(heap->bytes(), kMiB);
  heap.reset();
  EXPECT_EQ(budget_->used(), 0);
  HeapAccount next(account_);
  outlives.reset();
  EXPECT_EQ(next.bytes(), 0);
}

TEST_F(HeapAccountTest, SmallBlocksFailLater) {
  HeapAccount heap(account_);
  std::map<int, std::string> kept;
  {
    const HeapScope scope(&heap);
    EXPECT_THROW(for (int i = 0;; ++i) kept[i] = std::string(1000, 'x'), std::bad_alloc);
  }
  EXPECT_GE(heap.bytes(), 256 * kMiB + HeapAccount::kLargeBlocks);
  EXPECT_LE(heap.bytes(), 256 * kMiB + HeapAccount::kSmallBlocks + kMiB);
}

TEST_F(HeapAccountTest, WhatOutlivesItIsChargedToNobody) {
  std::vector<char> kept;
  {
    HeapAccount heap(account_);
    const HeapScope scope(&heap);
    kept.resize(kMiB);
    EXPECT_GE(budget_->used(), kMiB);
  }
  EXPECT_EQ(budget_->used(), 0);
  HeapAccount next(account_);
  kept = {};  // its count is another's
  EXPECT_EQ(next.bytes(), 0);
}

TEST_F(HeapAccountTest, MoreAccountsThanBlocksCanName) {
  std::vector<std::unique_ptr<std::string>> kept;  // a block of each
  for (int i = 0; i < 70'000; ++i) {
    HeapAccount heap(account_);
    const HeapScope scope(&heap);
    auto one = std::make_unique<std::string>();
    EXPECT_LT(heap.bytes(), 200u);
    const HeapScope outside(nullptr);
    kept.push_back(std::move(one));
  }
  HeapAccount last(account_);
  const HeapScope scope(&last);
  const auto mine = std::make_unique<std::string>();
  const std::uint64_t bytes = last.bytes();
  kept.clear();  // among them those of earlier accounts of the same slot
  EXPECT_EQ(last.bytes(), bytes);
}

TEST_F(HeapAccountTest, WhoLooksForRoomIsNotRefused) {
  /// Allocates whenever it is asked, as a cache that copies names does.
  struct Keeper final : Evictable {
    std::optional<std::uint64_t> unused_since() const override {
      const std::vector<char> names(HeapAccount::kLarge);
      return std::nullopt;
    }
    void evict(std::uint64_t) override {}
  } keeper;
  budget_->add_evictable(keeper);
  HeapAccount heap(account_);
  const HeapScope scope(&heap);
  account_->add(256 * kMiB + HeapAccount::kSmallBlocks + kMiB);
  const std::uint64_t used = account_->used(), all = budget_->used();
  EXPECT_THROW(account_->take(kMiB), OverBudget);
  EXPECT_FALSE(account_->reserve(512 * kMiB));
  EXPECT_EQ(account_->used(), used);
  EXPECT_EQ(budget_->used(), all);
  account_->give(used);
  budget_->remove_evictable(keeper);
}

TEST_F(HeapAccountTest, ScratchOfThreadsIsChargedToNobody) {
  struct User;
  HeapAccount heap(account_);
  const HeapScope scope(&heap);
  std::thread([&] {
    const HeapScope other(&heap);
    thread_scratch<User>(kMiB);
    EXPECT_LT(heap.bytes(), 64 << 10);
  }).join();
}

}  // namespace
}  // namespace echotrain::numerics
