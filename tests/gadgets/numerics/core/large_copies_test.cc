// Copies on the CPU that are worth sharing among cores.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/resources.h"
#include "tests/support/process_threads.h"
#include "tests/support/resources.h"

namespace echotrain::numerics {
namespace {

// Of 4 MiB on; neither a multiple of what one core takes at once nor of a page.
constexpr std::int64_t kLarge = (9 << 20) + 12345;

TEST(LargeCopies, EachByteIsCopiedAndCleared) {
  Context context(Backend::cpu, test_resources(3));
  auto from = context.allocate<std::uint8_t>({kLarge}), to = context.allocate<std::uint8_t>({kLarge});
  std::iota(from.data(), from.data() + kLarge, std::uint8_t{1});
  context.copy<std::uint8_t>(from.cview(), to.view());
  EXPECT_TRUE(std::equal(from.data(), from.data() + kLarge, to.data()));
  context.clear<std::uint8_t>(to.view());
  EXPECT_EQ(std::count(to.data(), to.data() + kLarge, std::uint8_t{0}), kLarge);
}

TEST(LargeCopies, AllCoresAreAsked) {
  const std::set<std::string> before = threads_now();
  const auto resources = test_resources(3);
  resources->threads();
  std::vector<std::string> helpers;
  for (const std::string& name : threads_now())
    if (!before.contains(name)) helpers.push_back(name);
  ASSERT_EQ(helpers.size(), 2u);
  Context context(Backend::cpu, resources);
  auto from = context.allocate<std::uint8_t>({kLarge}), to = context.allocate<std::uint8_t>({kLarge});
  const auto waits = [&] { return waits_of(helpers[0]) + waits_of(helpers[1]); };
  const std::int64_t first = waits();
  for (int i = 0; i < 50; ++i) context.copy<std::uint8_t>(from.cview(), to.view());
  EXPECT_GE(waits() - first, 10) << "nobody was woken";
}

}  // namespace
}  // namespace echotrain::numerics
