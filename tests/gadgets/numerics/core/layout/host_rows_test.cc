// Rows that lie anywhere against plain copies of them, as slabs of messages hold them.
#include "gadgets/numerics/core/layout/host_rows.h"

#include <gmock/gmock.h>

#include <cstring>
#include <memory>
#include <stdexcept>

#include "gadgets/numerics/core/cuda/receive_memory.h"
#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::OnBackend;

template <class B>
class HostRowsTest : public OnBackend<B> {
 protected:
  /// Memory as messages are received into: on a GPU the block that it reads from, else ordinary memory.
  std::span<std::byte> memory() {
    auto& received = this->context().resources().template get<ReceiveMemory>();
    received.take();
    if (this->context().cuda()) return received.block();
    ordinary_.resize(8 << 20);
    return ordinary_;
  }

  /// Writes rows of random numbers to where `at` says for each, and expects them back one after another.
  void expect_rows(std::span<std::byte> memory, std::int64_t numbers, const std::vector<std::size_t>& at) {
    const std::shared_ptr<const void> owner = std::make_shared<int>(1);
    std::vector<cfloat> right;
    std::vector<HostRow> rows;
    for (const std::size_t begin : at) {
      const auto values = testing::Random(static_cast<unsigned>(begin)).normals(numbers);
      const std::span<std::byte> row = memory.subspan(begin, values.size() * sizeof(cfloat));
      std::memcpy(row.data(), values.data(), row.size());
      right.insert(right.end(), values.begin(), values.end());
      rows.push_back({row, &owner});
    }
    const auto got = collect_rows(this->context(), rows, {static_cast<std::int64_t>(at.size()), numbers});
    EXPECT_EQ(this->download(got), right);
  }

 private:
  std::vector<std::byte> ordinary_;
};
TYPED_TEST_SUITE(HostRowsTest, testing::Backends, testing::BackendNames);

std::vector<std::size_t> evenly(std::size_t first, std::size_t stride, std::size_t count) {
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < count; ++i) at.push_back(first + i * stride);
  return at;
}

TYPED_TEST(HostRowsTest, RowsOfMessagesAtAnyAlignment) {
  const std::span<std::byte> memory = this->memory();
  for (const std::size_t first : {0u, 1u, 2u, 3u, 127u, 4098u})
    for (const std::size_t stride : {2048u, 2049u, 2390u, 4096u})
      this->expect_rows(memory, 256, evenly(first, stride, 256));
  this->expect_rows(memory, 8192, evenly(342, 65878, 64));
  this->expect_rows(memory, 3, evenly(2, 40, 20000));
}

// A slab ends, another message came between two readouts, or slabs lie the other way round.
TYPED_TEST(HostRowsTest, SeveralRuns) {
  const std::span<std::byte> memory = this->memory();
  std::vector<std::size_t> at = evenly(1 << 20, 2390, 100);
  for (const std::vector<std::size_t>& more :
       {evenly(5, 2390, 1), evenly(20001, 2048, 77), evenly(4 << 20, 2390, 3), evenly(300000, 4000, 60)})
    at.insert(at.end(), more.begin(), more.end());
  this->expect_rows(memory, 256, at);
}

TYPED_TEST(HostRowsTest, RowsFarFromEachOther) {
  const std::span<std::byte> memory = this->memory();
  this->expect_rows(memory, 512, evenly(9, 10000, 200));
  std::vector<std::size_t> backwards = evenly(100, 2390, 256);
  std::reverse(backwards.begin(), backwards.end());
  this->expect_rows(memory, 256, backwards);
}

TYPED_TEST(HostRowsTest, OrdinaryMemory) {
  std::vector<std::byte> ordinary(1 << 20);
  this->expect_rows(ordinary, 256, evenly(342, 2390, 256));
  this->expect_rows(this->memory(), 256, evenly(342, 2390, 3));  // few
}

// The block's last row ends with the block.
TYPED_TEST(HostRowsTest, TheEndOfTheMemory) {
  const std::span<std::byte> memory = this->memory();
  this->expect_rows(memory, 256, evenly(memory.size() - 255 * 2390 - 2048, 2390, 256));
}

TYPED_TEST(HostRowsTest, OwnersKeepTheirMemoryUntilItHasBeenRead) {
  const std::span<std::byte> memory = this->memory();
  const std::shared_ptr<const void> first = std::make_shared<int>(1), second = std::make_shared<int>(2);
  std::vector<HostRow> rows;
  for (const std::size_t at : evenly(342, 2390, 256))
    rows.push_back({memory.subspan(at, 2048), rows.size() < 100 ? &first : &second});
  const auto got = collect_rows(this->context(), rows, {256, 256});
  const long owners = this->context().cuda() ? 2 : 1;  // on a CPU all is read already
  EXPECT_EQ(first.use_count(), owners);
  EXPECT_EQ(second.use_count(), owners);
  this->context().synchronize();
  const std::shared_ptr<const void> third = std::make_shared<int>(3);
  for (HostRow& row : rows) row.owner = &third;
  collect_rows(this->context(), rows, {256, 256});
  EXPECT_EQ(first.use_count(), 1);
  EXPECT_EQ(second.use_count(), 1);
  EXPECT_EQ(third.use_count(), owners);
  this->context_.reset();
  EXPECT_EQ(third.use_count(), 1);
}

TYPED_TEST(HostRowsTest, EachResourcesHaveOneBlockThatCountsInTheirBudget) {
  Resources small({.memory_budget = 100 << 20});
  EXPECT_EQ(small.get<ReceiveMemory>().take(), nullptr);
  EXPECT_EQ(small.memory()->used(), 0u);
  EXPECT_TRUE(small.get<ReceiveMemory>().block().empty());

  auto mine = std::make_unique<Resources>();
  ReceiveMemory& memory = mine->get<ReceiveMemory>();
  std::shared_ptr<std::byte[]> owner = memory.take();
  EXPECT_EQ(memory.take(), nullptr);
  const std::byte other{};
  EXPECT_FALSE(memory.holds({&other, 1}));
  const std::span<std::byte> block = memory.block();
  EXPECT_EQ(mine->memory()->used(), block.size());
  if (!this->context().cuda()) return;

  EXPECT_EQ(block.size(), ReceiveMemory::kBytes);
  EXPECT_EQ(block.data(), owner.get());
  EXPECT_TRUE(memory.holds(block));
  EXPECT_TRUE(memory.holds(block.last(1)));
  EXPECT_FALSE(memory.holds({block.data() - 1, 2}));
  EXPECT_FALSE(memory.holds({block.data() + block.size() - 1, 2}));

  Resources others;
  EXPECT_NE(others.get<ReceiveMemory>().take(), nullptr);
  EXPECT_FALSE(others.get<ReceiveMemory>().holds(block));
  EXPECT_FALSE(memory.holds(others.get<ReceiveMemory>().block()));

  const std::shared_ptr<MemoryBudget> budget = mine->memory();
  mine.reset();
  EXPECT_EQ(budget->used(), ReceiveMemory::kBytes) << "who holds it may still read it";
  owner.reset();
  EXPECT_EQ(budget->used(), 0u);
}

TYPED_TEST(HostRowsTest, RowsThatDoNotFitTheShapeAreRefused) {
  const std::vector<std::byte> bytes(800);
  const std::shared_ptr<const void> owner;
  const std::vector<HostRow> rows{{std::span(bytes).first(400), &owner}, {std::span(bytes).last(400), &owner}};
  const auto refused = [&](const Shape& shape) {
    EXPECT_THROW(collect_rows(this->context(), rows, shape), std::invalid_argument) << shape.text();
  };
  refused({});
  refused({1, 100});
  refused({3, 50});
  refused({2, 49});
  refused({2, 51});
  EXPECT_EQ(collect_rows(this->context(), rows, {2, 5, 10}).shape(), (Shape{2, 5, 10}));
  EXPECT_EQ(collect_rows(this->context(), {}, {0, 5}).size(), 0);
}

std::vector<RowRun> runs(const std::vector<std::int64_t>& at, std::int64_t row_bytes, std::size_t most = 8) {
  static const std::vector<std::byte> memory(10000);
  static const std::shared_ptr<const void> owner;
  std::vector<HostRow> rows;
  for (const std::int64_t begin : at)
    rows.push_back({std::span(memory).subspan(static_cast<std::size_t>(begin), 1), &owner});
  return row_runs(rows, row_bytes, most);
}

TEST(RowRuns, AreRowsAtOneDistance) {
  EXPECT_THAT(runs({5, 15, 25, 35}, 8), ElementsAre(RowRun{0, 4, 10}));
  EXPECT_THAT(runs({5, 15, 25, 36, 46}, 8), ElementsAre(RowRun{0, 3, 10}, RowRun{3, 2, 10}));
  EXPECT_THAT(runs({5, 5000, 5010}, 8), ElementsAre(RowRun{0, 1, 0}, RowRun{1, 2, 10}));
  EXPECT_THAT(runs({40, 30, 38}, 8), ElementsAre(RowRun{0, 1, 0}, RowRun{1, 2, 8}));
  EXPECT_THAT(runs({7}, 8), ElementsAre(RowRun{0, 1, 0}));
  EXPECT_THAT(runs({}, 8), IsEmpty());
}

TEST(RowRuns, HaveNoGapLongerThanARowAndNoRowsInEachOther) {
  EXPECT_THAT(runs({0, 16, 32}, 8), ElementsAre(RowRun{0, 3, 16}));
  EXPECT_THAT(runs({0, 17, 34}, 8), ElementsAre(RowRun{0, 1, 0}, RowRun{1, 1, 0}, RowRun{2, 1, 0}));
  EXPECT_THAT(runs({0, 7}, 8), ElementsAre(RowRun{0, 1, 0}, RowRun{1, 1, 0}));
  EXPECT_THAT(runs({5, 5}, 8), ElementsAre(RowRun{0, 1, 0}, RowRun{1, 1, 0}));
}

TEST(RowRuns, AreNoMoreThanAsked) {
  EXPECT_EQ(runs({0, 100, 200}, 8, 3).size(), 3u);
  EXPECT_THAT(runs({0, 100, 200}, 8, 2), IsEmpty());
}

}  // namespace
}  // namespace echotrain::numerics
