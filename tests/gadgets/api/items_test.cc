// What flows through a pipeline.
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

}  // namespace
}  // namespace echotrain
