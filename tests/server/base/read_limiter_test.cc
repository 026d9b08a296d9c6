#include "server/base/read_limiter.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace echotrain::server {
namespace {

using Permit = std::unique_ptr<ReadLimiter::Permit>;

TEST(ReadLimiter, SoManyAtOnceAndThenWhoCameFirst) {
  const auto limiter = std::make_shared<ReadLimiter>(2);
  std::vector<int> woken;
  std::vector<Permit> asked;
  for (int i = 0; i < 5; ++i) asked.push_back(limiter->acquire([&woken, i] { woken.push_back(i); }));
  const auto granted = [&] {
    std::vector<int> which;
    for (int i = 0; i < 5; ++i)
      if (const Permit& permit = asked.at(static_cast<std::size_t>(i)); permit && permit->granted()) which.push_back(i);
    return which;
  };
  EXPECT_EQ(granted(), (std::vector<int>{0, 1}));
  EXPECT_TRUE(woken.empty()) << "who need not wait is not told";
  asked[1].reset();
  EXPECT_EQ(granted(), (std::vector<int>{0, 2}));
  asked[3].reset();  // leaves the line
  asked[0].reset();
  EXPECT_EQ(granted(), (std::vector<int>{2, 4}));
  EXPECT_EQ(woken, (std::vector<int>{2, 4}));
  asked.clear();
  EXPECT_TRUE(limiter->acquire({})->granted()) << "all have been given back";
}

TEST(ReadLimiter, ATurnMayEndWhileItsOwnerIsToldOfIt) {
  const auto limiter = std::make_shared<ReadLimiter>(1);
  Permit first = limiter->acquire({});
  Permit second;
  bool told = false;
  second = limiter->acquire([&] {
    told = true;
    second.reset();
  });
  first.reset();
  EXPECT_TRUE(told);
  EXPECT_TRUE(limiter->acquire({})->granted());
}

TEST(AddressLimiters, EachAddressHasItsOwn) {
  AddressLimiters limiters(1);
  bool told = false;
  Permit first = limiters.acquire("a", {});
  Permit second = limiters.acquire("a", [&] { told = true; });
  EXPECT_TRUE(first->granted());
  EXPECT_FALSE(second->granted());
  EXPECT_TRUE(limiters.acquire("b", {})->granted());
  first.reset();
  EXPECT_TRUE(told);
  EXPECT_TRUE(second->granted());
  EXPECT_FALSE(limiters.acquire("a", {})->granted());
}

}  // namespace
}  // namespace echotrain::server
