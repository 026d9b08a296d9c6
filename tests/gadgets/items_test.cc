// The items are what flows through a pipeline.
#include "gadgets/api/items.h"

#include <gtest/gtest.h>

namespace echotrain {
namespace {

TEST(FrameTest, NotesAreAddedToACopy) {
  Frame frame;
  frame.id = 7;
  frame.notes = {{"slices", "3"}, {"missing_lines", "1"}};
  const auto changed = with_notes(frame, {{"missing_lines", "2"}, {"averages", "4"}});
  EXPECT_EQ(changed->id, 7u);
  EXPECT_EQ(changed->notes,
            (std::map<std::string, std::string>{{"slices", "3"}, {"missing_lines", "2"}, {"averages", "4"}}));
  EXPECT_EQ(frame.notes, (std::map<std::string, std::string>{{"slices", "3"}, {"missing_lines", "1"}}));
}

TEST(FrameTest, KeysOfOtherSeriesDifferAndComeLater) {
  const FrameKey image{.slice = 1}, snr{.slice = 1, .series = 2}, next{.slice = 1, .set = 1};
  EXPECT_NE(image, snr);
  EXPECT_LT(image, snr);
  EXPECT_LT(snr, next);  // the last member orders last
}

TEST(SampledLinesTest, RowsThatCameAreCounted) {
  SampledLines lines;
  EXPECT_EQ(lines.count(), 0);
  lines.came = {1, 0, 0, 1, 1, 1};
  EXPECT_EQ(lines.count(), 4);
}

}  // namespace
}  // namespace echotrain
