// Scans that use more than they have reserved, and end when others wait.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/memory/reservations.h"

namespace echotrain::server {
namespace {

// Memory beyond its half is lent to an address: while others wait, its scans that borrow and do nothing end.
TEST_F(ReservationsTest, AnIdleScanThatBorrowsBeyondTheHalfOfItsAddressEnds) {
  const auto one_account = account(), two_account = account(), other_account = account();
  auto one = all_->ask({one_account, 10, "a"}, [] {}), two = all_->ask({two_account, 10, "a"}, [] {});
  auto other = all_->ask({other_account, 10, "b"}, [] {});
  one_account->take(41);
  other_account->take(45);
  EXPECT_FALSE(one->must_end_idle()) << "nobody waits";
  auto waits = ask(40, "c");
  EXPECT_FALSE(waits->granted());
  EXPECT_TRUE(one->must_end_idle()) << "41 and 10 are more than 50";
  EXPECT_FALSE(two->must_end_idle()) << "it does not borrow";
  EXPECT_FALSE(other->must_end_idle()) << "45 are not";
  two_account->take(12);
  EXPECT_FALSE(two->must_end_idle()) << "what is left once the first one has ended is no more than 50";
  two.reset();
  EXPECT_TRUE(one->must_end_idle()) << "it stays so";
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
  EXPECT_FALSE(one->ticket->must_end() || two->ticket->must_end()) << "nobody waits";
  auto waits = scan("c", 35);
  EXPECT_FALSE(waits->ticket->granted());
  at_once_->look_again();
  EXPECT_TRUE(two->ticket->must_end()) << "85 of the 50 that an address may reserve, of three a third";
  EXPECT_EQ(two->woken, 1);
  EXPECT_FALSE(one->ticket->must_end()) << "what that one has is enough";
  end(two);
  EXPECT_TRUE(waits->ticket->granted());
  EXPECT_EQ(waits->woken, 1);
  auto more = scan("d", 40);
  at_once_->look_again();
  EXPECT_TRUE(one->ticket->must_end());
  EXPECT_FALSE(three->ticket->must_end() || waits->ticket->must_end()) << "these do not borrow";
  EXPECT_FALSE(other->ticket->must_end()) << "15 are no more than its part";
}

TEST_F(BorrowingTest, AnAddressAloneHasAllButWhatIsKeptAndEndsForNoneOfItsOwn) {
  auto one = scan("a", 10, 60), two = scan("a", 10, 40);
  EXPECT_THROW(two->account->take(1), numerics::OverBudget) << "14 are for small first scans";
  auto waits = scan("a", 20);
  EXPECT_FALSE(waits->ticket->granted());
  at_once_->look_again();
  EXPECT_FALSE(one->ticket->must_end() || two->ticket->must_end());
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
  EXPECT_TRUE(much->ticket->must_end());
  EXPECT_FALSE(other->ticket->must_end()) << "38 are less than twice what it has reserved";
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
  EXPECT_TRUE(two->ticket->must_end()) << "33 are a third";
  EXPECT_FALSE(one->ticket->must_end());
  end(two);
  EXPECT_TRUE(third->ticket->granted());
}

// What a header suggests is not exact.
TEST_F(BorrowingTest, TwiceWhatIsReservedIsLentHoweverManyAddressesThereAre) {
  auto one = scan("a", 24, 48), two = scan("b", 26, 50), third = scan("c", 20);
  at_once_->look_again();
  EXPECT_FALSE(one->ticket->must_end() || two->ticket->must_end() || third->ticket->granted());
}

TEST_F(BorrowingTest, WhoHasMoreThanItsPartMakesNobodyEnd) {
  auto one = scan("a", 4, 44), two = scan("b", 4, 52), three = scan("c", 4, 4), waits = scan("a", 6);
  EXPECT_FALSE(waits->ticket->granted());
  at_once_->look_again();
  EXPECT_FALSE(two->ticket->must_end());
}

TEST_F(BorrowingTest, NobodyEndsBeforeOthersHaveWaited) {
  const auto patient = std::make_shared<MemoryAdmission>(budget_, 8, std::chrono::seconds(1));
  const auto greedy = account();
  const auto one = patient->ask({greedy, 10, "a"}, [] {});
  greedy->take(95);
  const auto began = Clock::now();
  const auto waits = patient->ask({account(), 30, "b"}, [] {});
  while (!one->must_end() && Clock::now() < began + std::chrono::minutes(1)) {
    patient->look_again();
    std::this_thread::yield();
  }
  EXPECT_TRUE(one->must_end());
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
  EXPECT_TRUE(one->must_end());
  EXPECT_FALSE(two->must_end());
  one.reset();
  all->look_again();
  EXPECT_FALSE(two->must_end()) << "40 come back";
  borrows->give(10);
  all->look_again();
  EXPECT_FALSE(two->must_end() || waits->granted()) << "30 more";
  borrows->give(30);
  all->look_again();
  EXPECT_TRUE(waits->granted());
  EXPECT_FALSE(two->must_end());
}

TEST_F(BorrowingTest, WhatDoesNotComeBackInTimeIsWaitedForNoLonger) {
  const auto all = std::make_shared<MemoryAdmission>(budget_, 8, Clock::duration(), Clock::duration());
  const auto borrows = account(), other_borrows = account();
  auto one = all->ask({borrows, 4, "a"}, [] {}), two = all->ask({other_borrows, 4, "a"}, [] {});
  borrows->take(40);
  other_borrows->take(36);
  auto other = all->ask({account(), 10, "b"}, [] {}), waits = all->ask({account(), 30, "c"}, [] {});
  all->look_again();
  EXPECT_FALSE(two->must_end());
  one.reset();
  all->look_again();
  EXPECT_TRUE(two->must_end()) << "its client may read its images slowly";
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
  EXPECT_FALSE(lender->ticket->must_end() || lender->ticket->must_end_idle());
}

// What two addresses have reserved stays: nobody gains when the third one ends.
TEST_F(BorrowingTest, NobodyEndsWhereThatIsNotEnough) {
  auto one = scan("a", 30), two = scan("b", 33), borrower = scan("c", 3, 30), waits = scan("d", 45);
  EXPECT_FALSE(waits->ticket->granted());
  at_once_->look_again();
  EXPECT_FALSE(borrower->ticket->must_end());
}

// A thread that hangs gives nothing back: others do.
TEST_F(BorrowingTest, NobodyWaitsForWhatAScanHasThatHangs) {
  auto hangs = scan("a", 4, 50), other = scan("b", 4, 48), waits = scan("c", 20);
  at_once_->look_again();
  EXPECT_TRUE(hangs->ticket->must_end());
  EXPECT_FALSE(other->ticket->must_end());
  hangs->ticket->is_stuck();
  at_once_->look_again();
  EXPECT_FALSE(hangs->ticket->must_end());
  EXPECT_TRUE(other->ticket->must_end());
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

}  // namespace
}  // namespace echotrain::server
