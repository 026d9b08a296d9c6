// Memory that is kept for reuse: freed blocks of the CPU backend, pinned host memory of CUDA.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

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

/// 4 KiB each. While memory is pinned, nobody else can launch anything.
TYPED_TEST(KeptMemoryTest, SmallBlocksArePinnedTogether) {
  if (TypeParam::kBackend == Backend::cpu) GTEST_SKIP() << "nothing is pinned";
  constexpr std::uint64_t kMib = 1 << 20;
  ResourceOptions options = test_resource_options();
  options.memory_budget = 64 * kMib;
  const auto resources = std::make_shared<Resources>(options);
  const std::shared_ptr<MemoryBudget> budget = resources->memory();
  Context context(TypeParam::kBackend, resources);
  const std::uint64_t before = budget->used();
  std::vector<HostArray<float>> blocks;
  for (int i = 0; i < 200; ++i) blocks.push_back(context.allocate_host<float>({1024}));
  EXPECT_EQ(budget->used(), before + kMib) << "one slab, with 56 blocks left";
  blocks.clear();
  context.synchronize();
  EXPECT_EQ(budget->used(), before + kMib) << "it is kept";
  const std::uint64_t all = budget->bound() - before;
  EXPECT_TRUE(budget->take(all)) << "and goes when it is wanted";
  budget->give(all);
}

/// Blocks are given back while copies from them wait behind one of 512 MiB (10 ms on a fast bus), and the next copies'
/// numbers are written to free ones.
TYPED_TEST(KeptMemoryTest, SmallBlocksWaitForTheWorkThatUsesThem) {
  const auto resources = std::make_shared<Resources>(test_resource_options());
  constexpr std::int64_t kCopies = 500, kEach = 512, kLarge = 16 << 20, kLargeCopies = 8;
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<Array<float>> all;
  for (int c = 0; c < 2; ++c) {
    contexts.push_back(std::make_unique<Context>(TypeParam::kBackend, resources));
    all.push_back(contexts.back()->template allocate<float>({kCopies, kEach}));
  }
  const HostArray<float> large = contexts[0]->template allocate_host<float>({kLarge});
  Array<float> behind = contexts[0]->template allocate<float>({kLarge});
  for (std::int64_t i = 0; i < kLargeCopies; ++i) contexts[0]->template copy<float>(large.cview(), behind.view());
  for (std::int64_t i = 0; i < kCopies; ++i)
    for (std::size_t c = 0; c < 2; ++c) {
      HostArray<float> block = contexts[c]->template allocate_host<float>({kEach});
      std::fill_n(block.data(), kEach, static_cast<float>(2 * i) + static_cast<float>(c));
      contexts[c]->template copy<float>(block.cview(), all[c].view().slice(i));
    }
  for (std::size_t c = 0; c < 2; ++c) {
    HostArray<float> back = contexts[c]->template allocate_host<float>({kCopies, kEach});
    contexts[c]->template copy<float>(all[c].cview(), back.view());
    contexts[c]->synchronize();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < kCopies * kEach; ++i)
      wrong += back.data()[i] != static_cast<float>(2 * (i / kEach)) + static_cast<float>(c);
    EXPECT_EQ(wrong, 0);
  }
}

}  // namespace
}  // namespace echotrain::numerics
