#include "server/base/read_turns.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace echotrain::server {
namespace {

using Turn = std::unique_ptr<ReadTurns::Turn>;

TEST(ReadTurns, SoManyAtOnceAndThenWhoCameFirst) {
  const auto turns = std::make_shared<ReadTurns>(2);
  std::vector<int> woken;
  std::vector<Turn> asked;
  for (int i = 0; i < 5; ++i) asked.push_back(turns->ask([&woken, i] { woken.push_back(i); }));
  const auto granted = [&] {
    std::vector<int> which;
    for (int i = 0; i < 5; ++i)
      if (const Turn& turn = asked.at(static_cast<std::size_t>(i)); turn && turn->granted()) which.push_back(i);
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
  EXPECT_TRUE(turns->ask({})->granted()) << "all have been given back";
}

TEST(ReadTurns, ATurnMayEndWhileItsOwnerIsToldOfIt) {
  const auto turns = std::make_shared<ReadTurns>(1);
  Turn first = turns->ask({});
  Turn second;
  bool told = false;
  second = turns->ask([&] {
    told = true;
    second.reset();
  });
  first.reset();
  EXPECT_TRUE(told);
  EXPECT_TRUE(turns->ask({})->granted());
}

}  // namespace
}  // namespace echotrain::server
