#include "gadgets/numerics/core/resources.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "tests/support/resources.h"

namespace echotrain::numerics {
namespace {

struct Counter {
  std::atomic<int> value = 0;
};

struct MadeOfOptions {
  explicit MadeOfOptions(Resources& resources)
      : budget(resources.memory()->bound()), counter(resources.share<Counter>()) {}
  const std::uint64_t budget;
  const std::shared_ptr<Counter> counter;
};

TEST(Resources, HaveOneThingOfAType) {
  Resources one({.memory_budget = 77}), other({.threads = 1});
  one.get<Counter>().value = 3;
  EXPECT_EQ(one.get<Counter>().value, 3);
  EXPECT_EQ(other.get<Counter>().value, 0) << "each has its own";
  EXPECT_EQ(one.get<MadeOfOptions>().budget, 77u);
  EXPECT_EQ(one.get<MadeOfOptions>().counter.get(), &one.get<Counter>()) << "a thing may ask for another";
  EXPECT_FALSE(other.memory()->bounded());
}

TEST(Resources, MakeAThingOnceForManyThreads) {
  struct Slow {
    Slow() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }
    std::atomic<int> users = 0;
  };
  Resources resources;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { ++resources.get<Slow>().users; });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(resources.get<Slow>().users, 4);
}

TEST(Resources, AThingThatCannotBeMadeIsTriedAgain) {
  static int attempts = 0;
  struct Fails {
    Fails() {
      if (++attempts == 1) throw std::runtime_error("not yet");
    }
  };
  Resources resources;
  EXPECT_THROW(resources.get<Fails>(), std::runtime_error);
  resources.get<Fails>();
  EXPECT_EQ(attempts, 2);
}

TEST(Resources, HaveThreadsOfTheirOwn) {
  EXPECT_EQ(Resources({.threads = 3}).threads().size(), 3);
  EXPECT_EQ(Resources().threads().size(), usable_cores());
  EXPECT_EQ(describe(Backend::cpu, *test_resources(3)).rfind("CPU, 3 threads (", 0), 0u);
}

TEST(Resources, OutliveTheirOwnerInAContext) {
  std::weak_ptr<Counter> counter;
  std::stop_source source;
  {
    Context context(Backend::cpu, test_resources(2), {.stop_token = source.get_token()});
    counter = context.resources().share<Counter>();
    EXPECT_EQ(context.threads().size(), 2);
    EXPECT_FALSE(counter.expired());
    EXPECT_FALSE(context.stop_token().stop_requested());
    source.request_stop();
    EXPECT_TRUE(context.stop_token().stop_requested());
  }
  EXPECT_TRUE(counter.expired());
  EXPECT_FALSE(Context(Backend::cpu, test_resources()).stop_token().stop_possible());
}

}  // namespace
}  // namespace echotrain::numerics
