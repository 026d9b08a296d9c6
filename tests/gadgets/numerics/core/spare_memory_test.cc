#include "gadgets/numerics/core/spare_memory.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "tests/support/resources.h"

namespace echotrain::numerics {
namespace {

// Uses `count` blocks of 1 MiB in a context that then goes; returns where they lay.
std::set<const float*> use(const std::shared_ptr<Resources>& resources, int count) {
  Context context(Backend::cpu, resources);
  std::vector<Array<float>> arrays;
  std::set<const float*> places;
  for (int i = 0; i < count; ++i) places.insert(arrays.emplace_back(context.allocate<float>({1 << 18})).data());
  return places;
}

TEST(SpareMemory, BlocksThatNobodyUsesAreFreed) {
#ifdef ECHOTRAIN_SANITIZED
  GTEST_SKIP() << "under a sanitizer nothing is kept";
#endif
  const auto resources = test_resources();
  const auto first = use(resources, 2);
  EXPECT_FALSE(free_unused_blocks(*resources)) << "they came a moment ago";
  EXPECT_EQ(use(resources, 2), first);
  EXPECT_FALSE(free_unused_blocks(*resources)) << "they were used again";
  use(resources, 1);
  EXPECT_TRUE(free_unused_blocks(*resources)) << "one was not used again";
  EXPECT_TRUE(free_unused_blocks(*resources)) << "nor was the other one";
  EXPECT_FALSE(free_unused_blocks(*resources)) << "none is left";
}

TEST(SpareMemory, BelongsToItsResources) {
#ifdef ECHOTRAIN_SANITIZED
  GTEST_SKIP() << "under a sanitizer nothing is kept";
#endif
  const auto one = test_resources(), other = test_resources();
  use(one, 1);
  free_unused_blocks(*one);
  EXPECT_FALSE(free_unused_blocks(*other));
  EXPECT_TRUE(free_unused_blocks(*one));
}

// An array may outlive its context, and both may outlive the resources.
TEST(SpareMemory, OutlivesTheResources) {
  Array<float> array;
  {
    Context context(Backend::cpu, test_resources());
    array = context.zeros<float>({1 << 18});
  }
  EXPECT_EQ(array.data()[5], 0);
}

}  // namespace
}  // namespace echotrain::numerics
