#include "gadgets/numerics/core/layout/line_stretches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace echotrain::numerics {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::int64_t> stretches(const std::vector<std::int32_t>& lines, std::size_t most = 1000000) {
  return line_stretches({lines.data(), {static_cast<std::int64_t>(lines.size())}}, most);
}

TEST(LineStretches, EndWhereALineComesAgain) {
  EXPECT_THAT(stretches({3, 1, 2}), ElementsAre(3));
  EXPECT_THAT(stretches({3, 1, 3, 1, 3}), ElementsAre(2, 4, 5));
  EXPECT_THAT(stretches({7, 7, 7}), ElementsAre(1, 2, 3));
  EXPECT_THAT(stretches({-1, -1, 0, -1}), ElementsAre(4));  // belonging nowhere, they do not meet
  EXPECT_THAT(stretches({}), ElementsAre(0));
}

TEST(LineStretches, AreNoMoreThanAsked) {
  EXPECT_THAT(stretches({5, 5, 5}, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(stretches({5, 5, 5}, 2), IsEmpty());
}

// The definition, readout by readout.
TEST(LineStretches, AreThoseOfTheDefinition) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    const std::int32_t range = 1 + static_cast<std::int32_t>(random() % 12);
    std::vector<std::int32_t> lines(random() % 40);
    for (auto& line : lines) line = static_cast<std::int32_t>(random() % static_cast<unsigned>(range + 1)) - 1;
    std::vector<std::int64_t> expected;
    std::set<std::int32_t> met;
    for (std::size_t r = 0; r < lines.size(); ++r) {
      if (lines[r] < 0) continue;
      if (met.contains(lines[r])) {
        expected.push_back(static_cast<std::int64_t>(r));
        met.clear();
      }
      met.insert(lines[r]);
    }
    expected.push_back(static_cast<std::int64_t>(lines.size()));
    EXPECT_EQ(stretches(lines), expected);
  }
}

}  // namespace
}  // namespace echotrain::numerics
