// A scan's turn says what it waits for, in which order, and what its client hears of it. The lines themselves have
// tests of their own.
#include "server/scan/scan_admission.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>

namespace echotrain::server {
namespace {

using numerics::Backend;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

/// A budget of 100 bytes, of which one address may have half; one place on the CPU and one on a GPU; two may wait.
class ScanTurnTest : public ::testing::Test {
 protected:
  ScanAdmission turn(const std::string& address, bool exempt = false) {
    const auto queues = std::make_shared<QueueMemory>(std::make_shared<numerics::MemoryAccount>(budget_));
    return {memory_, places_, kWaiting, {address, exempt, queues, [this] { ++woken_; }}};
  }

  static constexpr std::int64_t kWaiting = 2;
  const std::shared_ptr<numerics::MemoryBudget> budget_ = std::make_shared<numerics::MemoryBudget>(100);
  const std::shared_ptr<MemoryAdmission> memory_ = std::make_shared<MemoryAdmission>(budget_, kWaiting);
  const std::shared_ptr<ComputePool> places_ =
      std::make_shared<ComputePool>(std::vector<Place>{{Backend::cpu, 0, 1}, {Backend::cuda, 3, 1}}, kWaiting);
  int woken_ = 0;
};

void expect_silent(const ScanAdmission::Answer& answer) {
  EXPECT_FALSE(answer.refusal);
  EXPECT_THAT(answer.wait, IsEmpty());
}

TEST_F(ScanTurnTest, MemoryComesFirstAndThenThePlace) {
  ScanAdmission first = turn("a"), second = turn("b"), third = turn("c");
  expect_silent(first.ask_for_memory({Backend::cpu, 40, 0}));
  EXPECT_TRUE(first.has_memory());
  EXPECT_FALSE(first.asked_for_place());
  expect_silent(first.ask_for_place());
  EXPECT_TRUE(first.has_place());

  expect_silent(second.ask_for_memory({Backend::cpu, 40, 0}));
  EXPECT_EQ(second.ask_for_place().wait, "waiting for a place on the cpu; 0 scans wait before this one");
  EXPECT_TRUE(second.asked_for_place());
  EXPECT_FALSE(second.has_place());

  EXPECT_EQ(third.ask_for_memory({Backend::cpu, 40, 0}).wait,
            "waiting for memory, 1 MiB; 0 scans wait before this one");
  EXPECT_FALSE(third.has_memory());

  first.give_back();
  EXPECT_TRUE(second.has_place());
  EXPECT_TRUE(third.has_memory());
  EXPECT_EQ(woken_, 2);
}

TEST_F(ScanTurnTest, AFullLineRefuses) {
  ScanAdmission has = turn("a"), one = turn("b"), two = turn("c"), many = turn("d"), exempt = turn("e", true);
  has.ask_for_memory({Backend::cpu, 50, 0});
  has.ask_for_place();
  one.ask_for_memory({Backend::cpu, 10, 0});
  two.ask_for_memory({Backend::cpu, 10, 0});
  many.ask_for_memory({Backend::cpu, 10, 0});
  EXPECT_FALSE(one.ask_for_place().refusal);
  EXPECT_FALSE(two.ask_for_place().refusal);
  const ScanAdmission::Answer no_place = many.ask_for_place();
  ASSERT_TRUE(no_place.refusal);
  EXPECT_EQ(no_place.refusal->code, "busy");
  EXPECT_THAT(no_place.refusal->message, HasSubstr("max_waiting = 2"));
  EXPECT_FALSE(many.asked_for_place());

  ScanAdmission later = turn("f"), last = turn("g");
  later.ask_for_memory({Backend::cpu, 50, 0});
  last.ask_for_memory({Backend::cpu, 50, 0});
  const ScanAdmission::Answer no_memory = exempt.ask_for_memory({Backend::cpu, 50, 0});
  ASSERT_TRUE(no_memory.refusal);
  EXPECT_THAT(no_memory.refusal->message, HasSubstr("max_waiting = 2);")) << "no bound of one address is its reason";
  EXPECT_FALSE(exempt.has_memory());
}

TEST_F(ScanTurnTest, ANewScanKeepsThePlaceOnItsBackendOnly) {
  ScanAdmission mine = turn("a"), other = turn("b");
  mine.ask_for_memory({Backend::cpu, 40, 0});
  mine.ask_for_place();
  other.ask_for_memory({Backend::cpu, 10, 0});
  other.ask_for_place();
  mine.ask_for_memory({Backend::cpu, 50, 0});
  expect_silent(mine.ask_for_place());
  EXPECT_TRUE(mine.has_place());
  EXPECT_FALSE(other.has_place());

  mine.ask_for_memory({Backend::cuda, 10, 0});
  expect_silent(mine.ask_for_place());
  EXPECT_EQ(mine.place().device(), 3);
  EXPECT_TRUE(other.has_place());
}

// The header is true of a scan that would need more than one address or session may have.
TEST_F(ScanTurnTest, AScanThatHasToEndHearsWhetherItsHeaderIsToBlame) {
  ScanAdmission modest = turn("a"), large = turn("b"), cut = turn("c");
  modest.ask_for_memory({Backend::cpu, 10, 0, 10});
  EXPECT_THAT(modest.why_it_ends(), HasSubstr("more than its header made the server reserve; send it again later, with "
                                              "its true sizes"));
  large.ask_for_memory({Backend::cpu, 60, 0});
  EXPECT_TRUE(large.has_memory());
  EXPECT_THAT(large.why_it_ends(), HasSubstr("that this server reserves for one address (7/16 of memory_mib)"));
  EXPECT_THAT(large.why_it_ends(), Not(HasSubstr("true sizes")));
  cut.ask_for_memory({Backend::cpu, 20, 0, 60});
  EXPECT_THAT(cut.why_it_ends(), HasSubstr("that this server reserves for one session, whatever the header says"));
  EXPECT_THAT(cut.why_it_ends(), HasSubstr("(session_memory_mib)"));
}

TEST_F(ScanTurnTest, WhoWaitsForMemoryKeepsNoPlace) {
  ScanAdmission mine = turn("a"), other = turn("b");
  mine.ask_for_memory({Backend::cpu, 20, 0});
  mine.ask_for_place();
  other.ask_for_memory({Backend::cpu, 50, 0});
  other.ask_for_place();
  EXPECT_FALSE(other.has_place());
  ScanAdmission third = turn("c");
  third.ask_for_memory({Backend::cpu, 30, 0});
  EXPECT_THAT(mine.ask_for_memory({Backend::cpu, 50, 0}).wait, StartsWith("waiting for memory"));
  EXPECT_FALSE(mine.asked_for_place());
  EXPECT_TRUE(other.has_place());
}

TEST_F(ScanTurnTest, AScanThatPausedAsksForItsDeviceAgain) {
  ScanAdmission mine = turn("a"), other = turn("b");
  mine.ask_for_memory({Backend::cuda, 10, 0});
  mine.ask_for_place();
  const ScanPlace before{.backend = mine.place().backend(), .device = mine.place().device()};
  mine.give_back_place();
  EXPECT_TRUE(mine.has_memory());
  other.ask_for_memory({Backend::cuda, 10, 0});
  expect_silent(other.ask_for_place());
  EXPECT_EQ(mine.ask_again(before).wait, "waiting for a place on the cuda; 0 scans wait before this one");
  other.give_back();
  EXPECT_TRUE(mine.has_place());
  EXPECT_EQ(mine.place().device(), 3);
}

TEST_F(ScanTurnTest, OnlyScansOnTheCpuYieldAndNoneOfAnExemptAddress) {
  ScanAdmission first = turn("a"), second = turn("a"), exempt = turn("a", true), on_gpu = turn("a");
  EXPECT_EQ(second.counted_as(), "a");
  EXPECT_EQ(exempt.counted_as(), "");
  for (ScanAdmission* each : {&first, &second, &exempt}) each->ask_for_memory({Backend::cpu, 10, 0});
  on_gpu.ask_for_memory({Backend::cuda, 10, 0});
  const auto yields_with_place = [](ScanAdmission& scan) {
    scan.ask_for_place();
    EXPECT_TRUE(scan.has_place());
    const int yields = scan.yields_now(1);
    scan.give_back_place();
    return yields;
  };
  EXPECT_EQ(yields_with_place(first), 0) << "it was alone";
  EXPECT_EQ(yields_with_place(second), yields(1, 1));
  EXPECT_GT(yields(1, 1), 0);
  EXPECT_EQ(yields_with_place(exempt), 0);
  EXPECT_EQ(yields_with_place(on_gpu), 0);
}

}  // namespace
}  // namespace echotrain::server
