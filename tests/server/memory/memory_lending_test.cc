// Scans that lend what they have reserved and do not use, and get it back.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/memory/reservations.h"
#include "tests/support/cpu_time.h"
#include "tests/support/matter_of_time.h"

namespace echotrain::server {
namespace {

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

TEST_F(ReservationsTest, AScanThatCrawlsEndsWhenAnotherAddressHasWaited) {
  for (const bool long_enough : {true, false}) {
    const auto all =
        std::make_shared<MemoryAdmission>(budget_, 4, long_enough ? Clock::duration() : std::chrono::hours(1));
    auto one = all->ask({account(), 30, "a"}, [] {}), two = all->ask({account(), 50, "b"}, [] {});
    auto three = all->ask({account(), 10, "c"}, [] {}), own = all->ask({account(), 20, "a"}, [] {});
    ASSERT_TRUE(!own->granted() && all->under_pressure());
    EXPECT_FALSE(one->must_end_crawling()) << "its own address waits";
    auto other = all->ask({account(), 30, "d"}, [] {});
    ASSERT_FALSE(other->granted());
    EXPECT_EQ(one->must_end_crawling(), long_enough);
    other.reset();
    own.reset();
    EXPECT_EQ(one->must_end_crawling(), long_enough) << "it stays so";
    EXPECT_FALSE(two->must_end_crawling()) << "nobody waits any more";
  }
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

}  // namespace
}  // namespace echotrain::server
