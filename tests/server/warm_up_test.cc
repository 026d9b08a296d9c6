#include "server/warm_up/warm_up.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <set>
#include <thread>
#include <vector>

#include "gadgets/numerics/core/numerics_errors.h"
#include "server/warm_up/small_scans.h"
#include "tests/support/resources.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using numerics::Backend;

config::PipelineLibrary shipped() { return config::PipelineLibrary({shipped_pipelines()}); }

config::ServerOptions on_cpu() {
  config::ServerOptions options;
  options.backend = config::BackendChoice::cpu;
  return options;
}

TEST(SmallScan, GivesImagesOfItsPointsInEveryPipelineThatTakesIt) {
  const auto resources = test_resources();
  std::set<std::string> taken;
  std::set<SmallScanKind> kinds;
  const config::PipelineLibrary library = shipped();
  for (const config::PipelineSpec& spec : library.all()) {
    for (const SmallScanKind kind : small_scans_of(spec)) {
      SCOPED_TRACE(spec.name + ", kind " + std::to_string(static_cast<int>(kind)));
      SmallScan scan = small_scan(spec, kind, {64, 4});
      numerics::Context compute(Backend::cpu, resources);
      int images = 0;
      double most = 0;
      std::string said;
      Pipeline pipeline(PipelinePlan::check(spec), compute,
                        {[&](protocol::Image&& image, const ImageTimes&) {
                           ++images;
                           const auto look_at = [&]<class T>(std::vector<T> pixels) {
                             image.pixels.copy_to(pixels.data());
                             for (const T value : pixels) {
                               ASSERT_TRUE(std::isfinite(value));
                               most = std::max(most, std::abs(static_cast<double>(value)));
                             }
                           };
                           const std::size_t bytes = image.pixels.bytes.size();
                           if (image.head.data_type == ISMRMRD::ISMRMRD_FLOAT)
                             look_at(std::vector<float>(bytes / sizeof(float)));
                           else
                             look_at(std::vector<std::uint16_t>(bytes / sizeof(std::uint16_t)));
                         },
                         [&](protocol::Level level, const std::string& text) {
                           if (level >= protocol::Level::warning) said += text + "\n";
                         }});
      ASSERT_NO_THROW({
        pipeline.start(scan.header);
        pipeline.push(std::move(scan.readouts));
        pipeline.finish(End::complete);
        pipeline.wait();
      });
      EXPECT_GE(images, 1);
      EXPECT_EQ(pipeline.counts().late_readouts, 0u);
      EXPECT_GT(most, 0) << "an image of nothing loads less";
      EXPECT_EQ(said, "") << "frames that are left alone warm nothing";
      taken.insert(spec.name);
      kinds.insert(kind);
    }
  }
  for (const char* name :
       {"cartesian_plain", "cartesian_grappa", "cartesian_sense", "epi_2d", "radial_2d", "cg_sense_2d"})
    EXPECT_TRUE(taken.contains(name)) << name;
  EXPECT_EQ(kinds.size(), 5u);
}

TEST(WarmUp, TakesEveryKindFirstAndTheDefaultPipelineBeforeAll) {
  config::ServerOptions options = on_cpu();
  options.default_pipeline = "radial_2d";
  const Environment environment = make_environment(options, shipped(), Registry::builtin(), test_resources());
  const std::vector<WarmUp::Step> steps = WarmUp::steps_of(environment);
  ASSERT_GT(steps.size(), 8u);
  EXPECT_TRUE(steps.front().name.starts_with("radial_2d ")) << steps.front().name;
  const auto place_of = [&](const std::string& name) {
    return std::find_if(steps.begin(), steps.end(),
                        [&](const auto& step) { return step.name.starts_with(name + " "); }) -
           steps.begin();
  };
  EXPECT_LT(place_of("epi_2d"), 6) << "the only one of its kind";
  std::set<std::string> names;
  for (const auto& step : steps) names.insert(step.name.substr(0, step.name.find(' ')));
  EXPECT_FALSE(names.contains("passthrough"));
  EXPECT_FALSE(names.contains("images_display"));
}

/// Afterwards only the kept memory of pools and caches counts in the server's budget, which scans that need it get.
TEST(WarmUp, KeepsLittleMemory) {
  numerics::ResourceOptions of_resources = test_resource_options();
  of_resources.memory_budget = 1ull << 30;
  const auto resources = std::make_shared<numerics::Resources>(of_resources);
  const Environment environment = make_environment(on_cpu(), shipped(), Registry::builtin(), resources);
  const std::uint64_t before = resources->memory()->used();
  for (const WarmUp::Step& step : WarmUp::steps_of(environment)) {
    SCOPED_TRACE(step.name);
    ASSERT_NO_THROW(step.run({}));
    EXPECT_LE(resources->memory()->used() - before, 64ull << 20);
  }
  resources->memory()->evict_unused();
  EXPECT_LE(resources->memory()->used() - before, 1ull << 20) << "nobody holds what a step has used";
}

TEST(WarmUp, EveryStepStopsWhenItIsTold) {
  const Environment environment = make_environment(on_cpu(), shipped(), Registry::builtin(), test_resources());
  std::stop_source stop;
  stop.request_stop();
  for (const WarmUp::Step& step : WarmUp::steps_of(environment))
    EXPECT_THROW(step.run(stop.get_token()), numerics::Stopped) << step.name;
}

std::shared_ptr<ComputePool> a_pool() {
  return std::make_shared<ComputePool>(std::vector<Place>{{Backend::cpu, 0, 4}}, 10);
}

void wait_for(const std::atomic<bool>& flag) {
  const auto end = Clock::now() + 20s;
  while (!flag && Clock::now() < end) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(flag);
}

TEST(WarmUp, GivesWayToAScanAndTakesTheStepAgain) {
  const auto pool = a_pool();
  std::atomic<bool> began = false, gave_way = false, again = false, last = false, done = false;
  const std::vector<WarmUp::Step> steps = {{"long",
                                            [&](const std::stop_token& stop) {
                                              if (began) {
                                                again = true;
                                                return;
                                              }
                                              began = true;
                                              while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
                                              gave_way = true;
                                              throw numerics::Stopped();
                                            }},
                                           {"refused", [](const auto&) { throw std::runtime_error("no"); }},
                                           {"last", [&](const auto&) { last = true; }}};
  const WarmUp warm_up(pool, steps, [&] { done = true; });
  wait_for(began);
  auto scan = pool->ask(Backend::cpu, [] {});
  wait_for(gave_way);
  std::this_thread::sleep_for(3 * WarmUp::kQuiet);
  EXPECT_FALSE(again) << "a scan runs";
  scan.reset();
  wait_for(again);
  wait_for(done);
  EXPECT_TRUE(last) << "what a pipeline refuses keeps no other step from running";
}

TEST(WarmUp, ShowsWhereItHangs) {
  const auto pool = a_pool();
  std::atomic<bool> began = false, may_end = false, done = false;
  const std::vector<WarmUp::Step> steps = {{"long on cpu 0", [&](const auto&) {
                                              began = true;
                                              while (!may_end) std::this_thread::sleep_for(1ms);
                                            }}};
  const WarmUp warm_up(pool, steps, [&] { done = true; });
  wait_for(began);
  EXPECT_FALSE(warm_up.progress()->waits());
  EXPECT_EQ(*warm_up.progress()->at(), "long on cpu 0");
  may_end = true;
  wait_for(done);
  const auto end = Clock::now() + 20s;
  while (!warm_up.progress()->waits() && Clock::now() < end) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(warm_up.progress()->waits());
}

TEST(WarmUp, TakesNoMoreThanItsTime) {
  const auto pool = a_pool();
  std::atomic<int> ran = 0;
  std::atomic<bool> done = false;
  const WarmUp::Step step{"slow", [&](const auto&) {
                            std::this_thread::sleep_for(20ms);
                            ++ran;
                          }};
  const WarmUp warm_up(
      pool, std::vector(100, step), [&] { done = true; }, 50ms);
  wait_for(done);
  EXPECT_LE(ran, 3);
}

TEST(WarmUp, EndsAtOnce) {
  const auto pool = a_pool();
  std::atomic<bool> began = false, done = false;
  {
    WarmUp warm_up(pool,
                   {{"endless",
                     [&](const std::stop_token& stop) {
                       began = true;
                       while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
                       throw numerics::Stopped();
                     }}},
                   [&] { done = true; });
    wait_for(began);
    warm_up.stop();
  }
  EXPECT_FALSE(done) << "the server ends";
}

}  // namespace
}  // namespace echotrain::server
