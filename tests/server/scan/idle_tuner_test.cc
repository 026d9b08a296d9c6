#include "server/scan/idle_tuner.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "gadgets/numerics/nufft/nufft.h"
#include "gadgets/numerics/nufft/tuning.h"
#include "tests/support/resources.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using numerics::Backend;
using numerics::NufftTuner;

std::shared_ptr<ComputePool> a_pool() {
  return std::make_shared<ComputePool>(std::vector<Place>{{Backend::cpu, 0, 4}}, 10);
}

std::shared_ptr<numerics::Resources> tuned_resources() {
  numerics::ResourceOptions options = test_resource_options();
  options.autotune = true;
  options.cache_folder.clear();
  return std::make_shared<numerics::Resources>(options);
}

/// What a scan asks for, of which nothing is known.
void ask_for_plan(const std::shared_ptr<numerics::Resources>& resources) {
  numerics::Context context(Backend::cpu, resources);
  std::vector<double> k(2 * 60000);
  for (std::size_t i = 0; i < k.size(); ++i) k[i] = static_cast<double>(i * 7919 % 100003) / 100003 - 0.5;
  numerics::NufftPlan::make(context, {k.data(), {60000, 2}}, {128, 128}, {5, 1.5, numerics::NufftUse::adjoint}, 8);
}

TEST(Quiet, IsOverWhenAScanGetsAPlace) {
  const auto pool = a_pool();
  auto quiet = pool->wait_for_quiet(0ms, {});
  ASSERT_TRUE(quiet.has_value());
  EXPECT_FALSE(quiet->stop_requested());
  auto one = pool->ask(Backend::cpu, [] {});
  EXPECT_TRUE(quiet->stop_requested());
  pool->wait_for_use(*quiet, {});  // returns at once
  auto two = pool->ask(Backend::cpu, [] {});
  std::stop_source enough;
  std::thread later([&] {
    std::this_thread::sleep_for(30ms);
    enough.request_stop();
  });
  EXPECT_EQ(pool->wait_for_quiet(0ms, enough.get_token()), std::nullopt) << "scans run";
  later.join();
  one.reset();
  two.reset();
  const auto since = Clock::now();
  quiet = pool->wait_for_quiet(40ms, {});
  ASSERT_TRUE(quiet.has_value());
  EXPECT_GE(Clock::now() - since, 39ms);
  EXPECT_FALSE(quiet->stop_requested());
}

TEST(IdleTuner, WaitsForTheEndOfTheScans) {
  const auto resources = tuned_resources();
  const auto pool = a_pool();
  auto scan = pool->ask(Backend::cpu, [] {});
  const IdleTuner tuner(resources, pool, 10ms);
  ask_for_plan(resources);
  const auto& tunings = resources->get<NufftTuner>();
  ASSERT_EQ(tunings.wishes(), 1u);
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(tunings.wishes(), 1u) << "a scan runs";
  scan.reset();
  const auto end = Clock::now() + 30s;
  while (tunings.trials() == 0 && Clock::now() < end) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(tunings.trials(), 1);
}

TEST(IdleTuner, EndsAtOnce) {
  const auto resources = tuned_resources();
  ask_for_plan(resources);
  const auto begin = Clock::now();
  {
    const IdleTuner tuner(resources, a_pool(), 0ms);
    std::this_thread::sleep_for(20ms);  // a trial has begun
  }
  EXPECT_LT(Clock::now() - begin, 10s);
}

TEST(IdleTuner, BeginsNothingAfterItWasStopped) {
  const auto resources = tuned_resources();
  const auto pool = a_pool();
  auto scan = pool->ask(Backend::cpu, [] {});
  IdleTuner tuner(resources, pool, 0ms);
  ask_for_plan(resources);
  tuner.stop();
  scan.reset();
  std::this_thread::sleep_for(1s);  // a trial takes some 0.2 s
  EXPECT_EQ(resources->get<NufftTuner>().wishes(), 1u);
  EXPECT_EQ(resources->get<NufftTuner>().trials(), 0);
}

}  // namespace
}  // namespace echotrain::server
