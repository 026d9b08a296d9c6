// Memory that is kept for reuse: freed blocks of the CPU backend, pinned host memory of CUDA.
#include <gtest/gtest.h>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/resources.h"
#include "tests/support/backends.h"
#include "tests/support/resources.h"

namespace echotrain::numerics {
namespace {

template <class B>
class KeptMemoryTest : public ::echotrain::testing::OnBackend<B> {};
TYPED_TEST_SUITE(KeptMemoryTest, ::echotrain::testing::Backends, ::echotrain::testing::BackendNames);

TYPED_TEST(KeptMemoryTest, CountsAndGoesWhenOthersNeedIt) {
#ifdef ECHOTRAIN_SANITIZED
  if (TypeParam::kBackend == Backend::cpu) GTEST_SKIP() << "nothing is kept";
#endif
  constexpr std::uint64_t kMib = 1 << 20;
  ResourceOptions options = test_resource_options();
  options.memory_budget = 64 * kMib;
  const auto resources = std::make_shared<Resources>(options);
  const std::shared_ptr<MemoryBudget> budget = resources->memory();
  Context context(TypeParam::kBackend, resources);
  const std::uint64_t before = budget->used();
  context.allocate_host<float>({8 * kMib / sizeof(float)});
  context.synchronize();
  EXPECT_EQ(budget->used(), before + 8 * kMib) << "it is still there";
  context.allocate_host<float>({8 * kMib / sizeof(float)});
  EXPECT_EQ(budget->used(), before + 8 * kMib) << "and was used again";
  context.synchronize();  // what work may still use stays
  EXPECT_TRUE(budget->take(60 * kMib));
  EXPECT_EQ(budget->used(), before + 60 * kMib);
  budget->give(60 * kMib);
}

}  // namespace
}  // namespace echotrain::numerics
