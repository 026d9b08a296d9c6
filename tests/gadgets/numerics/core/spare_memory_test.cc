#include "gadgets/numerics/core/spare_memory.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {
namespace {

// What one context leaves behind when it is gone: `count` blocks of 1 MiB, and where they lay.
std::set<const float*> use(int count) {
  Context context(Backend::cpu);
  std::vector<Array<float>> arrays;
  std::set<const float*> places;
  for (int i = 0; i < count; ++i) places.insert(arrays.emplace_back(context.allocate<float>({1 << 18})).data());
  return places;
}

TEST(SpareMemory, BlocksThatNobodyUsesAreFreed) {
#ifdef ECHOTRAIN_SANITIZED
  GTEST_SKIP() << "under a sanitizer nothing is kept";
#endif
  while (free_unused_blocks()) {
  }
  free_unused_blocks();
  const auto first = use(2);
  EXPECT_FALSE(free_unused_blocks()) << "they came a moment ago";
  EXPECT_EQ(use(2), first);
  EXPECT_FALSE(free_unused_blocks()) << "they were used again";
  use(1);
  EXPECT_TRUE(free_unused_blocks()) << "one was not used again";
  EXPECT_TRUE(free_unused_blocks()) << "nor was the other one";
  EXPECT_FALSE(free_unused_blocks()) << "none is left";
}

}  // namespace
}  // namespace echotrain::numerics
