// What is done for later scans while none runs.
#include "gadgets/shared/idle/idle_tuning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gadgets/numerics/nufft/tuning.h"
#include "gadgets/shared/plan_cache.h"
#include "tests/support/resources.h"

namespace echotrain {
namespace {

using numerics::Backend;
using numerics::Context;
using numerics::NufftTuner;
using numerics::NufftTuning;

class IdleTuning : public testing::Test {
 protected:
  IdleTuning() {
    std::string name = (std::filesystem::temp_directory_path() / "echotrain-idle-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
    auto where = std::make_shared<SamplePositions>();
    for (int s = 0; s < 2 * 60000; ++s)
      where->coordinates.push_back(-0.5 + std::fmod(0.6180339887 * s * (1 + s % 2), 1.0));
    where->digest = numerics::trajectory_digest({where->coordinates.data(), {60000, 2}});
    request_ = {.positions = where, .image = {128, 128}, .options = {5, 1.5, numerics::NufftUse::adjoint}, .coils = 8};
  }
  ~IdleTuning() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::shared_ptr<numerics::Resources> resources(bool autotune) const {
    numerics::ResourceOptions options = test_resource_options();
    options.autotune = autotune;
    options.cache_folder = folder_;
    return std::make_shared<numerics::Resources>(options);
  }
  /// As a scan asks for it.
  std::shared_ptr<const numerics::NufftPlan> plan(const std::shared_ptr<numerics::Resources>& of) const {
    Context context(Backend::cpu, of);
    return of->get<PlanCache>().get(context, request_).plan;
  }
  std::filesystem::path file() const { return folder_ / "tuning.json"; }

  std::filesystem::path folder_;
  PlanCache::Request request_;
};

TEST_F(IdleTuning, DoesWhatScansHaveAskedForAndThenNothing) {
  const auto all = resources(true);
  EXPECT_EQ(tune_while_idle(all, {}), std::nullopt);
  plan(all);
  EXPECT_FALSE(std::filesystem::exists(file()));
  std::stop_source scan;
  scan.request_stop();
  EXPECT_EQ(tune_while_idle(all, scan.get_token()), std::nullopt);
  EXPECT_TRUE(tune_while_idle(all, {}).has_value());
  EXPECT_TRUE(std::filesystem::exists(file()));
  int more = 0;
  while (tune_while_idle(all, {})) ASSERT_LT(++more, 3);
  EXPECT_EQ(all->get<NufftTuner>().trials(), 1);
}

TEST_F(IdleTuning, WithoutAutotuneNothingIsTried) {
  const auto all = resources(false);
  plan(all);
  EXPECT_EQ(tune_while_idle(all, {}), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(file()));
}

// The plan of a trajectory that comes again must not stay as it was made before anything was known.
TEST_F(IdleTuning, KeptPlansAreMadeAnew) {
  {
    const auto first = resources(true);
    plan(first);
    ASSERT_TRUE(tune_while_idle(first, {}).has_value());
  }
  nlohmann::json found = nlohmann::json::parse(std::ifstream(file()));
  ASSERT_EQ(found["entries"].size(), 1u);
  for (auto& entry : found["entries"]) entry["tile_y"] = entry["tile_x"] = 64;  // some way that is not the default
  std::filesystem::remove(file());

  const auto all = resources(true);
  const auto before = plan(all);
  const NufftTuning usual = numerics::default_tuning(2, 5, Backend::cpu);
  EXPECT_EQ(before->tuning(), usual);
  std::ofstream(file()) << found;
  EXPECT_TRUE(tune_while_idle(all, {}).has_value()) << "what another program found is taken";
  EXPECT_EQ(all->get<NufftTuner>().trials(), 0);
  EXPECT_EQ(plan(all), before) << "not yet made anew";
  EXPECT_TRUE(tune_while_idle(all, {}).has_value());
  EXPECT_EQ(tune_while_idle(all, {}), std::nullopt);
  const auto after = plan(all);
  EXPECT_EQ(after->tuning().tile[2], 64);
  EXPECT_EQ(before->tuning(), usual) << "who holds the old one keeps it";
  auto& cache = all->get<PlanCache>();
  EXPECT_EQ(cache.plans(), 1u);
  EXPECT_EQ(cache.bytes(), after->bytes() + request_.bytes());
  EXPECT_EQ(cache.counts().misses, 1u) << "no scan had to make it";
}

}  // namespace
}  // namespace echotrain
