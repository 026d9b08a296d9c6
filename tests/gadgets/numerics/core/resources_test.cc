#include "gadgets/numerics/core/resources.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
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
  explicit MadeOfOptions(Resources& resources) : budget(resources.budget()), counter(resources.share<Counter>()) {}
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
  EXPECT_EQ(other.budget(), 0u);
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

/// Sets an environment variable while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    if (value == nullptr)
      unsetenv(name);
    else
      setenv(name, value, 1);
  }
  ~Variable() {
    if (old_)
      setenv(name_, old_->c_str(), 1);
    else
      unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

/// What is wrong with a variable's value; empty when nothing is.
std::string refusal(const char* name, const char* value) {
  const Variable variable(name, value);
  try {
    resource_options_from_environment();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(ResourceEnvironment, SetsTheOptions) {
  const Variable threads("ECHOTRAIN_THREADS", "5"), autotune("ECHOTRAIN_AUTOTUNE", "off"),
      hopper("ECHOTRAIN_HOPPER", "off"), graphs("ECHOTRAIN_GRAPHS", "on"), plans("ECHOTRAIN_PLAN_CACHE_MIB", "3"),
      operators("ECHOTRAIN_OPERATOR_CACHE_MIB", "0"), trajectories("ECHOTRAIN_TRAJECTORY_CACHE_MIB", ""),
      disk("ECHOTRAIN_DISK_CACHE_MIB", "4");
  const ResourceOptions options = resource_options_from_environment();
  EXPECT_EQ(options.threads, 5);
  EXPECT_FALSE(options.autotune);
  EXPECT_FALSE(options.hopper);
  EXPECT_TRUE(options.graphs);
  EXPECT_EQ(options.plan_cache_bytes, 3u << 20);
  EXPECT_EQ(options.operator_cache_bytes, 0u);
  EXPECT_EQ(options.trajectory_cache_bytes, ResourceOptions().trajectory_cache_bytes);
  EXPECT_EQ(options.disk_cache_bytes, 4u << 20);
}

TEST(ResourceEnvironment, RefusesBadValues) {
  EXPECT_EQ(refusal("ECHOTRAIN_THREADS", "two"), "ECHOTRAIN_THREADS=two: it must be a whole number from 0 to 4096");
  EXPECT_EQ(refusal("ECHOTRAIN_AUTOTUNE", "no"), "ECHOTRAIN_AUTOTUNE=no: it must be on or off");
  for (const char* value : {"-1", "4097", "2x", " 2", "99999999999999999999"})
    EXPECT_NE(refusal("ECHOTRAIN_THREADS", value), "") << value;
  for (const char* value : {"-1", "1073741825", "1.5"})
    EXPECT_NE(refusal("ECHOTRAIN_DISK_CACHE_MIB", value), "") << value;
  for (const char* name : {"ECHOTRAIN_THREADS", "ECHOTRAIN_AUTOTUNE", "ECHOTRAIN_PLAN_CACHE_MIB"}) {
    EXPECT_EQ(refusal(name, ""), "") << name;
    EXPECT_EQ(refusal(name, nullptr), "") << name;
  }
}

TEST(ResourceEnvironment, FindsTheCacheFolder) {
  const auto folder = [] { return resource_options_from_environment().cache_folder; };
  const Variable home("HOME", "/home/x");
  {
    const Variable cache("ECHOTRAIN_CACHE_DIR", "/a"), xdg("XDG_CACHE_HOME", "/b");
    EXPECT_EQ(folder(), "/a");
  }
  const Variable cache("ECHOTRAIN_CACHE_DIR", nullptr);
  {
    const Variable xdg("XDG_CACHE_HOME", "/b");
    EXPECT_EQ(folder(), "/b/echotrain");
  }
  const Variable xdg("XDG_CACHE_HOME", "");
  EXPECT_EQ(folder(), "/home/x/.cache/echotrain");
  const Variable homeless("HOME", nullptr);
  EXPECT_EQ(folder(), "");
}

}  // namespace
}  // namespace echotrain::numerics
