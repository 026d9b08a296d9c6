// The reservations decide whose turn it is to have memory reserved.
#include "server/memory/memory_admission.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/cpu_time.h"
#include "tests/support/matter_of_time.h"

namespace echotrain::server {
namespace {

using numerics::MemoryAccount;
using numerics::MemoryBudget;

class ReservationsTest : public testing::Test {
 protected:
  std::shared_ptr<MemoryAccount> account() { return std::make_shared<MemoryAccount>(budget_); }
  auto ask(std::uint64_t bytes, const std::string& address) {
    return all_->ask({account(), bytes, address}, [this] { ++woken_; });
  }
  // An eighth is 14, of which a small scan has at most 3; half of the rest is 50.
  const std::shared_ptr<MemoryBudget> budget_ = std::make_shared<MemoryBudget>(114);
  const std::shared_ptr<MemoryAdmission> all_ = std::make_shared<MemoryAdmission>(budget_, 2);
  int woken_ = 0;
};

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

TEST_F(ReservationsTest, WhatIsReservedAndUnusedIsCalledBackWhileOthersWait) {
  const auto first_account = account();
  auto first = all_->ask({first_account, 50, "a"}, [this] { ++woken_; });
  auto second = ask(50, "b");
  first_account->take(10);
  EXPECT_FALSE(first->give_back_unused()) << "nobody waits";
  auto third = ask(30, "c");
  EXPECT_FALSE(third->granted());
  EXPECT_TRUE(first->give_back_unused());
  EXPECT_TRUE(third->granted());
  EXPECT_EQ(woken_, 1);
  EXPECT_FALSE(first->granted());
  EXPECT_FALSE(first->give_back_unused()) << "it has no more";
  EXPECT_EQ(first_account->reserved(), 10u);
  EXPECT_EQ(budget_->used(), 90u);
  first->regain();
  EXPECT_FALSE(first->granted());
  EXPECT_EQ(all_->waiting(), 1);
  first->regain();
  EXPECT_EQ(all_->waiting(), 1) << "it is in line already";
  second.reset();
  EXPECT_TRUE(first->granted());
  EXPECT_EQ(first_account->reserved(), 50u);
  third.reset();
  first.reset();
  EXPECT_EQ(budget_->used(), 10u) << "what the account still uses";
}

TEST_F(ReservationsTest, WhoHasGivenBackMayEndInLine) {
  auto first = ask(50, "a"), second = ask(50, "b"), third = ask(40, "c");
  EXPECT_TRUE(first->give_back_unused());
  EXPECT_TRUE(third->granted());
  first->regain();
  first.reset();
  EXPECT_EQ(all_->waiting(), 0);
  EXPECT_EQ(budget_->used(), 90u);
}

// Others may always come: a scan that has lent its memory does not stand behind those who came meanwhile.
TEST_F(ReservationsTest, WhoHasLentRegainsBeforeAllOthers) {
  const auto all = std::make_shared<MemoryAdmission>(budget_, 8);
  const auto ask_in = [&](std::uint64_t bytes, const std::string& address) {
    return all->ask({account(), bytes, address}, [] {});
  };
  auto lender = ask_in(50, "a"), second = ask_in(40, "b"), other = ask_in(30, "c");
  EXPECT_TRUE(lender->give_back_unused());
  EXPECT_TRUE(other->granted());
  auto late = ask_in(40, "d"), later = ask_in(20, "e");  // both after it has lent
  EXPECT_FALSE(late->granted() || later->granted());
  lender->regain();
  EXPECT_FALSE(lender->granted());
  EXPECT_EQ(lender->position(), 0);
  EXPECT_EQ(late->position(), 1);
  EXPECT_EQ(later->position(), 2);
  other.reset();
  EXPECT_TRUE(lender->granted());
  EXPECT_FALSE(late->granted()) << "40 + 50 + 40 are more than 100 of 114";
}

// Each lends for a moment: who waits gets what two of them have lent.
TEST_F(ReservationsTest, WhoNeedsWhatTwoLendGetsItThoughEachGoesOn) {
  const auto all = std::make_shared<MemoryAdmission>(budget_, 8, std::chrono::hours(1), std::chrono::hours(1));
  const auto ask_in = [&](std::uint64_t bytes, const std::string& address) {
    return all->ask({account(), bytes, address}, [] {});
  };
  auto one = ask_in(30, "a"), two = ask_in(30, "b"), three = ask_in(30, "c");
  auto waits = ask_in(50, "d");
  EXPECT_TRUE(one->give_back_unused());
  auto late = ask_in(5, "e");
  one->regain();
  EXPECT_FALSE(waits->granted() || one->granted() || late->granted());
  EXPECT_EQ(waits->position(), 0);
  EXPECT_EQ(one->position(), 1);
  EXPECT_EQ(late->position(), 2) << "it had not waited when the first one lent";
  EXPECT_TRUE(two->give_back_unused());
  EXPECT_TRUE(waits->granted());
  two->regain();
  EXPECT_FALSE(one->granted() || two->granted());
  waits.reset();
  EXPECT_TRUE(one->granted() && two->granted());
}

TEST_F(ReservationsTest, WhoHasLentGoesOnAfterItsPatienceThoughOthersWait) {
  const auto at_once = std::make_shared<MemoryAdmission>(budget_, 8, std::chrono::hours(1), Clock::duration());
  const auto ask_in = [&](std::uint64_t bytes, const std::string& address) {
    return at_once->ask({account(), bytes, address}, [] {});
  };
  auto lender = ask_in(20, "a"), second = ask_in(50, "b"), fourth = ask_in(10, "d"), third = ask_in(45, "c");
  EXPECT_TRUE(lender->give_back_unused());
  EXPECT_FALSE(third->granted());
  lender->regain();
  EXPECT_TRUE(lender->granted());
}

// What small first scans lend is kept for such scans.
TEST_F(ReservationsTest, OnlyWhoCouldHaveWhatWasLentGoesBeforeWhoLentIt) {
  const auto all = std::make_shared<MemoryAdmission>(budget_, 16, std::chrono::hours(1), std::chrono::hours(1));
  const auto ask_in = [&](std::uint64_t bytes, const std::string& address) {
    return all->ask({account(), bytes, address}, [] {});
  };
  std::vector<std::unique_ptr<MemoryAdmission::Ticket>> small;
  auto one = ask_in(50, "a"), two = ask_in(50, "b"), large = ask_in(40, "c");
  for (const char* address : {"d", "e", "f", "g", "h"}) small.push_back(ask_in(2, address));
  EXPECT_TRUE(small[0]->give_back_unused());
  small[0]->regain();
  EXPECT_TRUE(small[0]->granted()) << "the large one could not have it";
  for (const char* address : {"i", "j"}) small.push_back(ask_in(2, address));  // 14 are reserved
  auto waits = ask_in(3, "k");
  EXPECT_TRUE(small[0]->give_back_unused());
  small[0]->regain();
  all->look_again();
  EXPECT_FALSE(waits->granted() || small[0]->granted());
  EXPECT_TRUE(small[1]->give_back_unused());
  EXPECT_TRUE(waits->granted());
}

// Each has kept what the other waits for.
TEST_F(ReservationsTest, ThoseWhoRegainDoNotWaitForEachOtherForEver) {
  const auto all = std::make_shared<MemoryAdmission>(budget_, 8, std::chrono::hours(1), std::chrono::seconds(1));
  const auto one_account = account(), two_account = account();
  auto one = all->ask({one_account, 50, "a"}, [this] { ++woken_; });
  auto two = all->ask({two_account, 50, "b"}, [this] { ++woken_; });
  one_account->take(45);
  two_account->take(45);
  auto waits = all->ask({account(), 50, "c"}, [] {});
  EXPECT_TRUE(one->give_back_unused() && two->give_back_unused());
  auto between = account();
  between->take(8);
  one->regain();
  two->regain();
  all->look_again();
  EXPECT_FALSE(one->granted() || two->granted()) << "5 are wanted and 2 are left";
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  all->look_again();
  EXPECT_TRUE(one->granted() && two->granted());
  EXPECT_EQ(woken_, 2);
  EXPECT_EQ(one_account->reserved(), 45u);
  EXPECT_FALSE(waits->granted());
  one.reset();
  two.reset();
  EXPECT_EQ(budget_->used(), 98u) << "what the accounts still use";
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
  all_->look_again();
  EXPECT_FALSE(large->granted());
  EXPECT_TRUE(small->granted());
  EXPECT_TRUE(all_->under_pressure());
}

// Memory beyond its half is lent to an address: while others wait, its scans that borrow and do nothing end.
TEST_F(ReservationsTest, AnIdleScanThatBorrowsBeyondTheHalfOfItsAddressEnds) {
  const auto one_account = account(), two_account = account(), other_account = account();
  auto one = all_->ask({one_account, 10, "a"}, [] {}), two = all_->ask({two_account, 10, "a"}, [] {});
  auto other = all_->ask({other_account, 10, "b"}, [] {});
  one_account->take(41);
  other_account->take(45);
  EXPECT_FALSE(one->is_to_end_idle()) << "nobody waits";
  auto waits = ask(40, "c");
  EXPECT_FALSE(waits->granted());
  EXPECT_TRUE(one->is_to_end_idle()) << "41 and 10 are more than 50";
  EXPECT_FALSE(two->is_to_end_idle()) << "it does not borrow";
  EXPECT_FALSE(other->is_to_end_idle()) << "45 are not";
  two_account->take(12);
  EXPECT_FALSE(two->is_to_end_idle()) << "what is left once the first one has ended is no more than 50";
  two.reset();
  EXPECT_TRUE(one->is_to_end_idle()) << "it stays so";
}

TEST_F(ReservationsTest, AScanThatCrawlsEndsWhenAnotherAddressHasWaited) {
  for (const bool long_enough : {true, false}) {
    const auto all =
        std::make_shared<MemoryAdmission>(budget_, 4, long_enough ? Clock::duration() : std::chrono::hours(1));
    auto one = all->ask({account(), 30, "a"}, [] {}), two = all->ask({account(), 50, "b"}, [] {});
    auto three = all->ask({account(), 10, "c"}, [] {}), own = all->ask({account(), 20, "a"}, [] {});
    ASSERT_TRUE(!own->granted() && all->under_pressure());
    EXPECT_FALSE(one->is_to_end_crawling()) << "its own address waits";
    auto other = all->ask({account(), 30, "d"}, [] {});
    ASSERT_FALSE(other->granted());
    EXPECT_EQ(one->is_to_end_crawling(), long_enough);
    other.reset();
    own.reset();
    EXPECT_EQ(one->is_to_end_crawling(), long_enough) << "it stays so";
    EXPECT_FALSE(two->is_to_end_crawling()) << "nobody waits any more";
  }
}

/// Scans that borrow end at once when others wait.
class BorrowingTest : public ReservationsTest {
 protected:
  struct Scan {
    std::shared_ptr<MemoryAccount> account;
    std::unique_ptr<MemoryAdmission::Ticket> ticket;
    int woken = 0;
  };
  std::unique_ptr<Scan> scan(const std::string& address, std::uint64_t reserves, std::uint64_t uses = 0) {
    auto made = std::make_unique<Scan>();
    made->account = account();
    made->ticket = at_once_->ask({made->account, reserves, address}, [scan = made.get()] { ++scan->woken; });
    made->account->take(uses);
    return made;
  }
  /// Its session ends: what it has goes before its ticket.
  static void end(std::unique_ptr<Scan>& scan) {
    scan->account->give(scan->account->used());
    scan.reset();
  }
  const std::shared_ptr<MemoryAdmission> at_once_ = std::make_shared<MemoryAdmission>(budget_, 8, Clock::duration());
};

TEST_F(BorrowingTest, WhoBorrowsMostEndsWhateverItDoesUntilWhatIsWaitedForFits) {
  auto one = scan("a", 10, 35), two = scan("a", 10, 40), three = scan("a", 10, 10), other = scan("b", 10, 15);
  at_once_->look_again();
  EXPECT_FALSE(one->ticket->is_to_end() || two->ticket->is_to_end()) << "nobody waits";
  auto waits = scan("c", 35);
  EXPECT_FALSE(waits->ticket->granted());
  at_once_->look_again();
  EXPECT_TRUE(two->ticket->is_to_end()) << "85 of the 50 that an address may reserve, of three a third";
  EXPECT_EQ(two->woken, 1);
  EXPECT_FALSE(one->ticket->is_to_end()) << "what that one has is enough";
  end(two);
  EXPECT_TRUE(waits->ticket->granted());
  EXPECT_EQ(waits->woken, 1);
  auto more = scan("d", 40);
  at_once_->look_again();
  EXPECT_TRUE(one->ticket->is_to_end());
  EXPECT_FALSE(three->ticket->is_to_end() || waits->ticket->is_to_end()) << "these do not borrow";
  EXPECT_FALSE(other->ticket->is_to_end()) << "15 are no more than its part";
}

TEST_F(BorrowingTest, AnAddressAloneHasAllButWhatIsKeptAndEndsForNoneOfItsOwn) {
  auto one = scan("a", 10, 60), two = scan("a", 10, 40);
  EXPECT_THROW(two->account->take(1), numerics::OverBudget) << "14 are for small first scans";
  auto waits = scan("a", 20);
  EXPECT_FALSE(waits->ticket->granted());
  at_once_->look_again();
  EXPECT_FALSE(one->ticket->is_to_end() || two->ticket->is_to_end());
  EXPECT_FALSE(at_once_->under_pressure()) << "it has more than its part already";
  auto small = scan("b", 3, 3);
  EXPECT_TRUE(small->ticket->granted());
  EXPECT_NO_THROW(two->account->check()) << "what small scans take was never lent";
  EXPECT_THROW(two->account->take(1), numerics::OverBudget);
  small.reset();
  EXPECT_EQ(budget_->kept(), 14u);
}

// Who has more than its part neither makes others end nor stands before those who have less.
TEST_F(BorrowingTest, WhoHasTooMuchWaitsBehindThoseWhoHaveNot) {
  auto much = scan("a", 10, 60), other = scan("b", 20, 38);
  auto first = scan("a", 15), second = scan("c", 12);
  EXPECT_EQ(second->ticket->position(), 1);
  at_once_->look_again();
  EXPECT_TRUE(much->ticket->is_to_end());
  EXPECT_FALSE(other->ticket->is_to_end()) << "38 are less than twice what it has reserved";
  much->account->give(14);  // enough for either
  at_once_->look_again();
  EXPECT_TRUE(second->ticket->granted());
  EXPECT_FALSE(first->ticket->granted());
}

// Three addresses: two that borrow give way to the third, though none has more than one may reserve.
TEST_F(BorrowingTest, TheMoreAddressesThereAreTheLessIsLentToEach) {
  auto one = scan("a", 4, 48), two = scan("b", 4, 50);
  auto third = scan("c", 20);
  EXPECT_FALSE(third->ticket->granted());
  at_once_->look_again();
  EXPECT_TRUE(two->ticket->is_to_end()) << "33 are a third";
  EXPECT_FALSE(one->ticket->is_to_end());
  end(two);
  EXPECT_TRUE(third->ticket->granted());
}

// What a header suggests is not exact.
TEST_F(BorrowingTest, TwiceWhatIsReservedIsLentHoweverManyAddressesThereAre) {
  auto one = scan("a", 24, 48), two = scan("b", 26, 50), third = scan("c", 20);
  at_once_->look_again();
  EXPECT_FALSE(one->ticket->is_to_end() || two->ticket->is_to_end() || third->ticket->granted());
}

TEST_F(BorrowingTest, WhoHasMoreThanItsPartMakesNobodyEnd) {
  auto one = scan("a", 4, 44), two = scan("b", 4, 52), three = scan("c", 4, 4), waits = scan("a", 6);
  EXPECT_FALSE(waits->ticket->granted());
  at_once_->look_again();
  EXPECT_FALSE(two->ticket->is_to_end());
}

TEST_F(BorrowingTest, NobodyEndsBeforeOthersHaveWaited) {
  const auto patient = std::make_shared<MemoryAdmission>(budget_, 8, std::chrono::seconds(1));
  const auto greedy = account();
  const auto one = patient->ask({greedy, 10, "a"}, [] {});
  greedy->take(95);
  const auto began = Clock::now();
  const auto waits = patient->ask({account(), 30, "b"}, [] {});
  while (!one->is_to_end() && Clock::now() < began + std::chrono::minutes(1)) {
    patient->look_again();
    std::this_thread::yield();
  }
  EXPECT_TRUE(one->is_to_end());
  EXPECT_GE(Clock::now() - began, std::chrono::seconds(1));
}

// It borrows: it gives back itself what it waits for, and holds up nobody meanwhile.
TEST_F(BorrowingTest, WhoHasMoreThanItsPartHoldsUpNobody) {
  auto one = scan("a", 4, 44), two = scan("b", 4, 52), three = scan("c", 4, 4), waits = scan("a", 6);
  EXPECT_FALSE(waits->ticket->granted());
  EXPECT_FALSE(at_once_->under_pressure()) << "44 and 6 may be had by one address, but of three 33 are its part";
  auto smaller = scan("d", 5);
  EXPECT_FALSE(smaller->ticket->granted());
  two->account->give(5);
  at_once_->look_again();
  EXPECT_TRUE(smaller->ticket->granted());
  EXPECT_FALSE(waits->ticket->granted());
}

// Its images are still being sent when its ticket ends.
TEST_F(BorrowingTest, WhatAScanThatHasEndedStillHasIsWaitedFor) {
  const auto all = std::make_shared<MemoryAdmission>(budget_, 8, Clock::duration(), std::chrono::hours(1));
  const auto borrows = account(), other_borrows = account();
  auto one = all->ask({borrows, 4, "a"}, [] {}), two = all->ask({other_borrows, 4, "a"}, [] {});
  borrows->take(40);
  other_borrows->take(36);  // more than a third, too
  auto other = all->ask({account(), 10, "b"}, [] {}), waits = all->ask({account(), 30, "c"}, [] {});
  all->look_again();
  EXPECT_TRUE(one->is_to_end());
  EXPECT_FALSE(two->is_to_end());
  one.reset();
  all->look_again();
  EXPECT_FALSE(two->is_to_end()) << "40 come back";
  borrows->give(10);
  all->look_again();
  EXPECT_FALSE(two->is_to_end() || waits->granted()) << "30 more";
  borrows->give(30);
  all->look_again();
  EXPECT_TRUE(waits->granted());
  EXPECT_FALSE(two->is_to_end());
}

TEST_F(BorrowingTest, WhatDoesNotComeBackInTimeIsWaitedForNoLonger) {
  const auto all = std::make_shared<MemoryAdmission>(budget_, 8, Clock::duration(), Clock::duration());
  const auto borrows = account(), other_borrows = account();
  auto one = all->ask({borrows, 4, "a"}, [] {}), two = all->ask({other_borrows, 4, "a"}, [] {});
  borrows->take(40);
  other_borrows->take(36);
  auto other = all->ask({account(), 10, "b"}, [] {}), waits = all->ask({account(), 30, "c"}, [] {});
  all->look_again();
  EXPECT_FALSE(two->is_to_end());
  one.reset();
  all->look_again();
  EXPECT_TRUE(two->is_to_end()) << "its client may read its images slowly";
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

// In a breath hold it has lent 30 of its 40: it takes them again without having them reserved, and borrows nothing.
TEST_F(BorrowingTest, WhoTakesAgainWhatItHasLentDoesNotBorrow) {
  auto lender = scan("a", 40, 10), other = scan("b", 50), third = scan("c", 30);
  EXPECT_FALSE(third->ticket->granted());
  EXPECT_TRUE(lender->ticket->give_back_unused());
  third.reset();
  lender->account->take(30);  // more than the 33 that are its part of three
  auto waits = scan("d", 25);
  EXPECT_FALSE(waits->ticket->granted());
  at_once_->look_again();
  EXPECT_FALSE(lender->ticket->is_to_end() || lender->ticket->is_to_end_idle());
}

// What two addresses have reserved stays: nobody gains when the third one ends.
TEST_F(BorrowingTest, NobodyEndsWhereThatIsNotEnough) {
  auto one = scan("a", 30), two = scan("b", 33), borrower = scan("c", 3, 30), waits = scan("d", 45);
  EXPECT_FALSE(waits->ticket->granted());
  at_once_->look_again();
  EXPECT_FALSE(borrower->ticket->is_to_end());
}

// A thread that hangs gives nothing back: others do.
TEST_F(BorrowingTest, NobodyWaitsForWhatAScanHasThatHangs) {
  auto hangs = scan("a", 4, 50), other = scan("b", 4, 48), waits = scan("c", 20);
  at_once_->look_again();
  EXPECT_TRUE(hangs->ticket->is_to_end());
  EXPECT_FALSE(other->ticket->is_to_end());
  hangs->ticket->is_stuck();
  at_once_->look_again();
  EXPECT_FALSE(hangs->ticket->is_to_end());
  EXPECT_TRUE(other->ticket->is_to_end());
}

// 600 scans lend and go on while 600 of their addresses wait for more than these may have. With sums per address all of
// that takes 0.15 s; where each pair is asked with sums of its own, 2.5 s.
TEST(ReservationsCostTest, ALookTakesLittleHoweverManyWait) {
#ifdef ECHOTRAIN_SANITIZED
  constexpr int kScans = 200;
#else
  constexpr int kScans = 600;
#endif
  const auto budget = std::make_shared<MemoryBudget>(4 * kScans);
  const auto all = std::make_shared<MemoryAdmission>(budget, 2 * kScans);
  std::vector<std::unique_ptr<MemoryAdmission::Ticket>> tickets;
  const auto ask = [&](std::uint64_t bytes, const std::string& address) {
    tickets.push_back(all->ask({std::make_shared<MemoryAccount>(budget), bytes, address, true}, [] {}));
    ASSERT_TRUE(tickets.back());
  };
  for (int i = 0; i < kScans; ++i) ask(2, i % 2 == 0 ? "a" : "b");
  ask(2 * kScans, "c");  // somebody waits: what is unused is called back
  for (int i = 0; i < kScans; ++i) ask(2 * kScans, "a");
  const double begun = thread_cpu_seconds();
  int lend = 0;
  for (int i = 0; i < kScans; ++i) lend += tickets[static_cast<std::size_t>(i)]->give_back_unused() ? 1 : 0;
  EXPECT_GT(lend, kScans / 2);
  for (int i = 0; i < kScans; ++i) tickets[static_cast<std::size_t>(i)]->regain();
  all->look_again();
  EXPECT_LT(thread_cpu_seconds() - begun, 1) << kMatterOfTime;
}

// 100 of 114 are lent: 50 where one address has scans, 33 where two have, as if there were one more.
TEST_F(ReservationsTest, OneAddressHasTooMuchWhenItLeavesNoEqualPartForWhoComes) {
  const auto input = account(), of_other = account();
  auto first = all_->ask({account(), 10, "a", false, input}, [] {});
  auto second = ask(20, "a");
  input->add(20);
  EXPECT_FALSE(first->has_too_much()) << "50 in all";
  input->add(1);
  EXPECT_TRUE(first->has_too_much()) << "51 of 100, and another one's half is not there";
  EXPECT_TRUE(second->has_too_much()) << "it is the address that has";
  auto other = all_->ask({account(), 1, "b", false, of_other}, [] {});
  EXPECT_FALSE(other->has_too_much());
  of_other->add(32);
  EXPECT_FALSE(other->has_too_much()) << "33 of 100";
  of_other->add(1);
  EXPECT_TRUE(other->has_too_much()) << "34, and there may be a third address";
  first.reset();
  second.reset();
  EXPECT_FALSE(other->has_too_much()) << "alone it may have 50";
  input->give(21);
  of_other->give(33);
}

TEST_F(ReservationsTest, OfABudgetThatIsHalfFreeNobodyHasTooMuch) {
  const auto input = account();
  std::vector<std::unique_ptr<MemoryAdmission::Ticket>> others;
  for (int i = 0; i < 10; ++i) others.push_back(ask(0, std::to_string(i)));
  auto ticket = all_->ask({account(), 0, "a", false, input}, [] {});
  input->add(50);
  EXPECT_FALSE(ticket->has_too_much());
  input->add(1);
  EXPECT_TRUE(ticket->has_too_much());
  input->give(51);
}

TEST_F(ReservationsTest, KnowsTheOtherScansOfAnAddress) {
  auto first = ask(10, "a"), second = ask(10, "a"), other = ask(10, "b");
  EXPECT_EQ(first->scans_beside(), 0);
  EXPECT_EQ(second->scans_beside(), 1);
  EXPECT_EQ(other->scans_beside(), 0);
  first.reset();
  EXPECT_EQ(ask(10, "a")->scans_beside(), 1);
  second.reset();
  EXPECT_EQ(ask(10, "a")->scans_beside(), 0);
  const auto unbounded = std::make_shared<MemoryAdmission>(std::make_shared<MemoryBudget>(), 2);
  const auto one = unbounded->ask({account(), 10, "a"}, [] {}), two = unbounded->ask({account(), 10, "a"}, [] {});
  EXPECT_EQ(two->scans_beside(), 1);
}

TEST_F(ReservationsTest, WhoGivesUpLeavesTheLine) {
  auto first = ask(50, "a"), second = ask(50, "b"), third = ask(20, "c"), fourth = ask(10, "d");
  third.reset();
  EXPECT_EQ(fourth->position(), 0);
  EXPECT_EQ(all_->waiting(), 1);
  second.reset();
  EXPECT_TRUE(fourth->granted());
}

TEST_F(ReservationsTest, MemoryThatWasBorrowedComesBackAtAnyTime) {
  MemoryAccount borrower(budget_);
  borrower.take(80);
  auto ticket = ask(40, "a");
  EXPECT_FALSE(ticket->granted());
  borrower.give(60);
  all_->look_again();
  EXPECT_TRUE(ticket->granted());
  EXPECT_EQ(woken_, 1);
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
