// The reservations decide whose turn it is to have memory reserved.
#include "server/memory/memory_admission.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/memory/reservations.h"

namespace echotrain::server {
namespace {

TEST_F(ReservationsTest, WhatDoesNotFitWaitsInLineAndIsWoken) {
  auto first = ask(40, "a"), second = ask(40, "b");
  EXPECT_TRUE(first->granted() && second->granted());
  auto third = ask(30, "c"), fourth = ask(10, "d");
  EXPECT_FALSE(third->granted());
  EXPECT_FALSE(fourth->granted()) << "it would fit, but nobody overtakes";
  EXPECT_EQ(third->position(), 0);
  EXPECT_EQ(fourth->position(), 1);
  EXPECT_TRUE(all_->under_pressure());
  EXPECT_EQ(ask(4, "e"), nullptr) << "the line is full";
  first.reset();
  EXPECT_TRUE(third->granted());
  EXPECT_TRUE(fourth->granted());
  EXPECT_EQ(woken_, 2);
  EXPECT_FALSE(all_->under_pressure());
  EXPECT_EQ(budget_->used(), 80u);
}

TEST_F(ReservationsTest, OneAddressHasHalfAndHoldsUpNobodyElse) {
  auto first = ask(70, "a");
  EXPECT_EQ(first->bytes(), 50u) << "cut to half";
  auto second = ask(1, "a"), other = ask(50, "b");
  EXPECT_FALSE(second->granted());
  EXPECT_TRUE(other->granted());
  EXPECT_FALSE(all_->under_pressure()) << "there is nothing that others could do";
  first.reset();
  EXPECT_TRUE(second->granted());
}

// Several addresses together may not keep others out of the line, either.
TEST_F(ReservationsTest, TheLastQuarterOfTheLineIsForAddressesThatHaveNoneInIt) {
  const auto all = std::make_shared<MemoryAdmission>(budget_, 8);
  const auto ask_in = [&](const std::string& address) { return all->ask({account(), 40, address}, [] {}); };
  const auto first = ask_in("a"), second = ask_in("b");
  std::vector<std::unique_ptr<MemoryAdmission::Ticket>> waiting;
  for (const char* address : {"a", "b", "c", "a", "b", "c"}) {
    waiting.push_back(ask_in(address));
    ASSERT_NE(waiting.back(), nullptr);
  }
  for (const char* address : {"a", "b", "c"}) EXPECT_EQ(ask_in(address), nullptr) << address;
  waiting.push_back(ask_in("d"));
  EXPECT_NE(waiting.back(), nullptr);
  EXPECT_EQ(ask_in("d"), nullptr);
  EXPECT_NE(ask_in("e"), nullptr);
}

// An address that has its half may ask on: what it asks for waits, and the line is not its own.
TEST_F(ReservationsTest, OneAddressLeavesAQuarterOfTheLineToOthers) {
  const auto all = std::make_shared<MemoryAdmission>(budget_, 8);
  const auto ask_in = [&](std::uint64_t bytes, const std::string& address, bool exempt = false) {
    return all->ask({account(), bytes, address, exempt}, [] {});
  };
  const auto greedy = ask_in(50, "a"), other = ask_in(50, "b");
  std::vector<std::unique_ptr<MemoryAdmission::Ticket>> waiting;
  for (int i = 0; i < 6; ++i) {
    waiting.push_back(ask_in(10, "a"));
    ASSERT_NE(waiting.back(), nullptr) << i;
    EXPECT_FALSE(waiting.back()->granted());
  }
  EXPECT_EQ(ask_in(10, "a"), nullptr) << "two of eight are for others";
  waiting.push_back(ask_in(10, "c"));
  ASSERT_NE(waiting.back(), nullptr);
  EXPECT_EQ(waiting.back()->position(), 6);
  EXPECT_NE(ask_in(10, "a", /*exempt=*/true), nullptr) << "the whole line";
  waiting.push_back(ask_in(10, "d"));
  ASSERT_NE(waiting.back(), nullptr);
  EXPECT_EQ(ask_in(10, "e"), nullptr) << "nothing is left for anybody";
}

// Who holds all that there is, or stands in line for it, does not keep others from small scans.
TEST_F(ReservationsTest, AnEighthIsForSmallScansOfThoseWhoHaveNone) {
  auto first = ask(50, "a"), second = ask(50, "b"), large = ask(20, "c");
  EXPECT_FALSE(large->granted());
  auto small = ask(3, "d");
  ASSERT_NE(small, nullptr);
  EXPECT_TRUE(small->granted());
  EXPECT_EQ(small->position(), 0);
  auto again = ask(3, "d");
  ASSERT_NE(again, nullptr);
  EXPECT_FALSE(again->granted()) << "its second one";
  EXPECT_EQ(ask(4, "e"), nullptr) << "too large, and the line is full";
  EXPECT_TRUE(ask(3, "f")->granted());
  small.reset();
  EXPECT_FALSE(again->granted() && large->granted());
  first.reset();
  EXPECT_TRUE(again->granted() && large->granted());
}

// What is there unasked may have taken that, too: a small scan waits then, and others that wait do not hold it up.
TEST_F(ReservationsTest, ASmallScanThatWaitsIsNotHeldUpByALargeOne) {
  MemoryAccount borrower(budget_);
  borrower.add(113);
  auto large = ask(50, "a"), small = ask(3, "b");
  EXPECT_FALSE(large->granted() || small->granted());
  borrower.give(10);
  all_->reconsider();
  EXPECT_FALSE(large->granted());
  EXPECT_TRUE(small->granted());
  EXPECT_TRUE(all_->under_pressure());
}

/// A cache that nobody uses.
class Cache final : public numerics::Evictable {
 public:
  Cache(MemoryBudget& budget, std::uint64_t bytes) : budget_(budget), bytes_(bytes) {
    budget_.add(bytes_);
    budget_.add_evictable(*this);
  }
  ~Cache() override {
    budget_.remove_evictable(*this);
    budget_.give(bytes_);
  }
  std::uint64_t bytes() const { return bytes_; }
  std::optional<std::uint64_t> unused_since() const override {
    return bytes_ == 0 ? std::nullopt : std::optional<std::uint64_t>(1);
  }
  void evict(std::uint64_t) override { budget_.give(std::exchange(bytes_, 0)); }

 private:
  MemoryBudget& budget_;
  std::uint64_t bytes_;
};

TEST_F(ReservationsTest, WhoMayNotReserveTakesNothingFromCaches) {
  auto first = ask(50, "a");
  Cache cache(*budget_, 40);
  auto second = ask(30, "a");
  EXPECT_FALSE(second->granted());
  EXPECT_EQ(cache.bytes(), 40u) << "its address has its half";
  auto other = ask(30, "b");
  EXPECT_TRUE(other->granted());
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST_F(ReservationsTest, KnowsTheOtherScansOfAnAddress) {
  auto first = ask(10, "a"), second = ask(10, "a"), other = ask(10, "b");
  EXPECT_EQ(first->other_scans(), 0);
  EXPECT_EQ(second->other_scans(), 1);
  EXPECT_EQ(other->other_scans(), 0);
  first.reset();
  EXPECT_EQ(ask(10, "a")->other_scans(), 1);
  second.reset();
  EXPECT_EQ(ask(10, "a")->other_scans(), 0);
  const auto unbounded = std::make_shared<MemoryAdmission>(std::make_shared<MemoryBudget>(), 2);
  const auto one = unbounded->ask({account(), 10, "a"}, [] {}), two = unbounded->ask({account(), 10, "a"}, [] {});
  EXPECT_EQ(two->other_scans(), 1);
}

TEST_F(ReservationsTest, WhoGivesUpLeavesTheLine) {
  auto first = ask(50, "a"), second = ask(50, "b"), third = ask(20, "c"), fourth = ask(10, "d");
  third.reset();
  EXPECT_EQ(fourth->position(), 0);
  EXPECT_EQ(all_->waiting(), 1);
  second.reset();
  EXPECT_TRUE(fourth->granted());
}

TEST_F(ReservationsTest, WhatIsUsedStaysCountedWhenTheReservationEnds) {
  const auto holder = account();
  auto ticket = all_->ask({holder, 40, "a"}, [] {});
  holder->take(30);
  ticket.reset();
  EXPECT_EQ(budget_->used(), 30u);
}

}  // namespace
}  // namespace echotrain::server
