// Memory that a step's process shares with this program.
#include "gadgets/steps/arrays/shared_area.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "gadgets/shared/program/item_memory.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

std::shared_ptr<SharedArea> area_of(std::uint64_t budget = 0) {
  return std::make_shared<SharedArea>(
      kBytes, std::make_shared<numerics::MemoryAccount>(std::make_shared<numerics::MemoryBudget>(budget)));
}

TEST(SharedArea, UsesMemoryAgainThatNobodyHolds) {
  const auto area = area_of();
  auto first = area->take(kBytes / 2 - 1), second = area->take(kBytes / 4), third = area->take(kBytes / 4);
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(area->place_of(first.get()), 0);
  EXPECT_EQ(area->place_of(third.get()), 3 * kBytes / 4);
  EXPECT_EQ(area->take(1), nullptr);
  first.reset();
  third.reset();
  EXPECT_EQ(area->take(kBytes / 2 + 1), nullptr);  // the second lies between them
  second.reset();
  const auto whole = area->take(kBytes);  // all three are one again
  EXPECT_EQ(area->place_of(whole.get()), 0);
  EXPECT_EQ(area->take(kBytes + 1), nullptr);
  const int elsewhere = 0;
  EXPECT_EQ(area->place_of(&elsewhere), -1);
}

TEST(SharedArea, TellsWhichResultsAreFree) {
  const auto area = area_of();
  ASSERT_EQ(::pwrite(area->results(), "result", 6, 128), 6);
  auto result = area->result(128, 6);
  ASSERT_TRUE(result);
  EXPECT_EQ(std::memcmp(result.get(), "result", 6), 0);
  EXPECT_TRUE(area->released().empty());
  result.reset();
  EXPECT_EQ(area->released(), std::vector<std::uint64_t>{128});
  EXPECT_TRUE(area->released().empty());
  EXPECT_EQ(area->result(100, 1), nullptr);  // unaligned
  EXPECT_EQ(area->result(kBytes - 64, 65), nullptr);
  EXPECT_EQ(area->result(std::uint64_t{1} << 63, std::uint64_t{1} << 63), nullptr);
}

TEST(SharedArea, CannotBeWrittenToNorCutByWhoeverGetsIt) {
  const auto area = area_of();
  for (const int file : {area->inputs(), area->results()}) {
    EXPECT_NE(::ftruncate(file, 0), 0);
    EXPECT_NE(::ftruncate(file, 2 * kBytes), 0);
  }
  EXPECT_EQ(::pwrite(area->inputs(), "x", 1, 0), -1);
  EXPECT_EQ(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, area->inputs(), 0), MAP_FAILED);
  void* const seen = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, area->inputs(), 0);
  ASSERT_NE(seen, MAP_FAILED);
  const auto memory = area->take(4);
  std::memcpy(memory.get(), "data", 4);
  EXPECT_EQ(std::memcmp(seen, "data", 4), 0);
  EXPECT_NE(::mprotect(seen, kBytes, PROT_READ | PROT_WRITE), 0);
  EXPECT_NE(::fallocate(area->inputs(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBytes), 0);
  ::munmap(seen, kBytes);
}

TEST(SharedArea, CountsInTheBudget) {
  EXPECT_THROW(area_of(2 * kBytes - 1), numerics::OverBudget);
  EXPECT_NO_THROW(area_of(2 * kBytes));
}

TEST(SharedArea, IsLentToTheGadgetsBeforeIt) {
  numerics::Context compute(numerics::Backend::cpu, test_resources());
  const auto elsewhere = allocate_item<float>(compute, {8});
  auto area = area_of();
  compute.cache<LentMemory>().lend(area);
  compute.cache<LentMemory>().lend(area_of());  // a second one is not taken
  const auto item = allocate_item<numerics::cfloat>(compute, {2, 8});
  EXPECT_EQ(area->place_of(item.data()), 0);
  EXPECT_EQ(area->place_of(elsewhere.data()), -1);
  const auto large = allocate_item<float>(compute, {1 << 20});  // 4 MiB find no room
  EXPECT_EQ(area->place_of(large.data()), -1);
  const std::weak_ptr<SharedArea> held = area;
  area.reset();
  EXPECT_FALSE(held.expired());  // the item keeps it
}

}  // namespace
}  // namespace echotrain::testing
