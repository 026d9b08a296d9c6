#include "protocol/wire/slab_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace echotrain::protocol::test {
namespace {

std::vector<std::shared_ptr<Slab>> slabs(SlabPool& pool, int count) {
  std::vector<std::shared_ptr<Slab>> taken;
  for (int i = 0; i < count; ++i) taken.push_back(pool.get(SlabPool::kSlabBytes));
  return taken;
}

std::set<const std::byte*> places(const std::vector<std::shared_ptr<Slab>>& of) {
  std::set<const std::byte*> places;
  for (const auto& slab : of) places.insert(slab->bytes);
  return places;
}

TEST(SlabPool, SlabsThatNobodyUsesAreFreed) {
  const auto pool = std::make_shared<SlabPool>();
  const auto first = places(slabs(*pool, 2));
  EXPECT_FALSE(pool->free_unused()) << "they came a moment ago";
  EXPECT_EQ(places(slabs(*pool, 2)), first);
  EXPECT_FALSE(pool->free_unused()) << "they were used again";
  slabs(*pool, 1);
  EXPECT_TRUE(pool->free_unused()) << "one was not used again";
  EXPECT_TRUE(pool->free_unused()) << "nor was the other one";
  EXPECT_FALSE(pool->free_unused()) << "none is left";
}

TEST(SlabPool, KeepsNoMoreThanItWasTold) {
  const auto pool = std::make_shared<SlabPool>(1000);
  pool->get(1001);
  EXPECT_EQ(pool->get(11)->size, 11u) << "a slab that is too large was kept";
  { const auto one = pool->get(600), two = pool->get(600); }
  const auto one = pool->get(500), two = pool->get(500);
  EXPECT_EQ(one->size, 600u);
  EXPECT_EQ(two->size, 500u) << "both were kept";
}

/// Another session's large slab would be paid for by whoever gets it for small messages.
TEST(SlabPool, GivesNoLargeSlabForASmallOne) {
  const auto pool = std::make_shared<SlabPool>();
  pool->get(8 * SlabPool::kSlabBytes);
  EXPECT_EQ(pool->get(SlabPool::kSlabBytes)->size, SlabPool::kSlabBytes);
  EXPECT_EQ(pool->get(5 * SlabPool::kSlabBytes)->size, 8 * SlabPool::kSlabBytes) << "it was kept";
}

TEST(SlabPool, SlabsOutliveTheirPool) {
  auto pool = std::make_shared<SlabPool>();
  const std::weak_ptr<SlabPool> watched = pool;
  std::shared_ptr<Slab> slab = pool->get(100);
  pool.reset();
  slab->bytes[99] = std::byte{1};
  EXPECT_FALSE(watched.expired());
  slab.reset();
  EXPECT_TRUE(watched.expired());
}

class LentMemory : public ::testing::Test {
 protected:
  bool is_lent(const Slab& slab) const {
    EXPECT_EQ(slab.size, SlabPool::kSlabBytes);
    return slab.bytes == memory_->data() || slab.bytes == memory_->data() + SlabPool::kSlabBytes;
  }

  std::shared_ptr<std::vector<std::byte>> memory_ =
      std::make_shared<std::vector<std::byte>>(2 * SlabPool::kSlabBytes + 100);
  std::shared_ptr<SlabPool> pool_ = std::make_shared<SlabPool>();
};

TEST_F(LentMemory, IsTakenFirstAndStays) {
  slabs(*pool_, 1);  // a slab that is free, too
  pool_->lend(*memory_, memory_);
  pool_->lend({}, memory_);
  for (int round = 0; round < 70; ++round) {  // more often than slabs fit into what is kept
    auto taken = slabs(*pool_, 3);
    ASSERT_TRUE(is_lent(*taken[0]));
    ASSERT_TRUE(is_lent(*taken[1]));
    ASSERT_NE(taken[0]->bytes, taken[1]->bytes);
    ASSERT_FALSE(is_lent(*taken[2]));
    taken.erase(taken.begin(), taken.begin() + 2);  // the other one is given back last
  }
  for (int period = 0; period < 3; ++period) pool_->free_unused();
  const auto taken = slabs(*pool_, 3);
  EXPECT_TRUE(is_lent(*taken[0])) << "it was not freed";
  EXPECT_TRUE(is_lent(*taken[1]));
  EXPECT_FALSE(is_lent(*taken[2]));
}

TEST_F(LentMemory, GoesWithThePoolAndItsSlabs) {
  pool_->lend(*memory_, memory_);
  const std::weak_ptr<std::vector<std::byte>> watched = std::exchange(memory_, nullptr);
  std::shared_ptr<Slab> slab = pool_->get(SlabPool::kSlabBytes);
  pool_.reset();
  EXPECT_FALSE(watched.expired()) << "somebody reads it";
  slab.reset();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace echotrain::protocol::test
