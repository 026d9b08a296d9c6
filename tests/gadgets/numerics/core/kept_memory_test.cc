// Memory that is kept for reuse: freed blocks of the CPU backend, pinned host memory of CUDA.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

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

/// The threads of connections free images that were sent, and the scan may go on for minutes.
TYPED_TEST(KeptMemoryTest, WhatCannotBeKeptIsFreedWithoutWaitingForWork) {
  if (TypeParam::kBackend == Backend::cpu) GTEST_SKIP() << "work is done when its call returns";
  constexpr std::uint64_t kMib = 1 << 20;
  ResourceOptions options = test_resource_options();
  options.memory_budget = 64 * kMib;
  const auto resources = std::make_shared<Resources>(options);
  Context context(TypeParam::kBackend, resources);
  constexpr std::int64_t kFloats = 64 * kMib / sizeof(float);
  auto from = context.allocate<float>({kFloats}), to = context.allocate<float>({kFloats});
  auto block = context.allocate_host<float>({8 * kMib / sizeof(float)});
  context.synchronize();
  const std::uint64_t rest = resources->memory()->left() + 8 * kMib;  // nothing can be kept
  resources->memory()->add(rest);
  for (int i = 0; i < 2000; ++i) context.template copy<float>(from.cview(), to.view());  // 20 us each
  std::atomic<bool> done{false};
  context.on_complete([&done] { done = true; });
  block = {};
  EXPECT_FALSE(done) << "it has waited for the copies";
  context.synchronize();
  resources->memory()->give(rest);
}

}  // namespace
}  // namespace echotrain::numerics
