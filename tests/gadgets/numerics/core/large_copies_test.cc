// Copies on the CPU that are worth sharing among cores.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <stop_token>
#include <thread>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/helper_limit.h"
#include "gadgets/numerics/core/resources.h"
#include "tests/support/resources.h"

namespace echotrain::numerics {
namespace {

// Copies are large from 4 MiB on; this one is neither a multiple of what one core takes at once nor of a page.
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

/// Holds the calling thread up, before a piece of its work, until a helper has asked whether it may help. It does so
/// however late it gets a core.
class WaitsForAHelper final : public HelperLimit {
 public:
  int most_helpers() const override {
    if (std::this_thread::get_id() != caller_) asked_ = true;
    return 8;
  }
  void look() override {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!asked_ && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  }
  void rest() override {}
  bool asked() const { return asked_; }

 private:
  const std::thread::id caller_ = std::this_thread::get_id();
  mutable std::atomic<bool> asked_{false};
};

TEST(LargeCopies, OtherCoresAreAsked) {
  const std::stop_source stop;  // what may be stopped looks before each piece
  Context context(Backend::cpu, test_resources(2), {.stop_token = stop.get_token()});
  auto from = context.allocate<std::uint8_t>({kLarge}), to = context.allocate<std::uint8_t>({kLarge});
  const auto is_shared = [&](const auto& work) {
    WaitsForAHelper waits;
    Yield::of_thread() = &waits;
    work();
    Yield::of_thread() = nullptr;
    return waits.asked();
  };
  EXPECT_TRUE(is_shared([&] { context.copy<std::uint8_t>(from.cview(), to.view()); }));
  EXPECT_TRUE(is_shared([&] { context.clear<std::uint8_t>(to.view()); }));
}

}  // namespace
}  // namespace echotrain::numerics
