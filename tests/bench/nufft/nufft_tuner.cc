#include "tests/bench/nufft/nufft_tuner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <numbers>
#include <random>
#include <string>

#include "gadgets/numerics/nufft/tuning.h"
#include "tests/support/bench_resources.h"

namespace echotrain::bench {

using namespace numerics;

namespace {

constexpr int kTuners = 3, kLeastRounds = 9;
constexpr double kSecondsPerTuner = 1;

std::vector<double> spiral() {
  constexpr int kArms = 16, kSamples = 4096, kTurns = 12;
  std::vector<double> k;
  for (int arm = 0; arm < kArms; ++arm)
    for (int s = 0; s < kSamples; ++s) {
      const double t = static_cast<double>(s) / kSamples;
      const double angle = 2 * std::numbers::pi * (kTurns * t + static_cast<double>(arm) / kArms);
      k.insert(k.end(), {0.49 * t * std::cos(angle), 0.49 * t * std::sin(angle)});
    }
  return k;
}

template <int dims, int count>
std::vector<double> anywhere() {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> place(-0.5, 0.5);
  std::vector<double> k(static_cast<std::size_t>(dims) * count);
  for (double& value : k) value = place(random);
  return k;
}

template <int readouts, int samples>
std::vector<double> spokes() {
  std::vector<double> k;
  for (int r = 0; r < readouts; ++r)
    for (int s = 0; s < samples; ++s) {
      const double radius = static_cast<double>(s) / samples - 0.5, angle = r * 1.9416110387254666;
      k.insert(k.end(), {radius * std::cos(angle), radius * std::sin(angle)});
    }
  return k;
}

template <int readouts, int samples>
std::vector<double> spokes_in_a_ball() {
  std::vector<double> k;
  for (int r = 0; r < readouts; ++r) {
    const double z = 1 - (2.0 * r + 1) / readouts, ring = std::sqrt(1 - z * z), angle = r * 1.9416110387254666;
    for (int s = 0; s < samples; ++s) {
      const double radius = static_cast<double>(s) / samples - 0.5;
      k.insert(k.end(), {radius * ring * std::cos(angle), radius * ring * std::sin(angle), radius * z});
    }
  }
  return k;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double clock_seconds(Backend backend) {
  if (backend == Backend::cpu) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

const std::vector<NufftCase>& tuner_cases() {
  static const std::vector<NufftCase> cases = {
      nufft_case("adjoint_2d_golden_402x512_c8_256/e1e-3"),
      nufft_case("adjoint_2d_golden_402x512_c8_256/e1e-5"),
      {"2d_golden_233x400_c15_200/w5", {200, 200}, 15, {5, 1.5}, true, true, spokes<233, 400>},
      {"2d_golden_55x512_c12_256/w5", {256, 256}, 12, {5, 1.5}, true, true, spokes<55, 512>},
      {"2d_spiral_16x4096_c4_220x180/w6", {220, 180}, 4, {6, 1.5}, true, true, spiral},
      {"2d_random_150000_c1_320/w7", {320, 320}, 1, {7, 1.5}, true, true, anywhere<2, 150000>},
      {"2d_golden_600x768_c16_384/w4", {384, 384}, 16, {4, 1.5}, true, true, spokes<600, 768>},
      nufft_case("adjoint_3d_kooshball_284592_c1_128/e1e-3"),
      nufft_case("adjoint_3d_kooshball_284592_c1_128/e1e-5"),
      nufft_case("adjoint_3d_kooshball_284592_c8_128/e1e-3"),
      {"3d_spokes_700x192_c3_96x80x112/w4", {96, 80, 112}, 3, {4, 1.25}, true, true, spokes_in_a_ball<700, 192>},
      {"3d_random_200000_c2_100/w6", {100, 100, 100}, 2, {6, 1.75}, true, true, anywhere<3, 200000>},
  };
  return cases;
}

void run_tuner(benchmark::State& state, const NufftCase& c, Backend backend) {
  const std::vector<double> k = c.trajectory();
  const auto dims = static_cast<std::int64_t>(c.image.rank()), count = static_cast<std::int64_t>(k.size()) / dims;
  const HostView<const double> coordinates(k.data(), {count, dims});
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  Shape images{c.coils};
  for (const auto extent : c.image) images.push_back(extent);
  const std::vector<cfloat> values = nufft_data(c, k, NufftData::white, context.threads());
  const Array<cfloat> samples = context.upload<cfloat>({values.data(), {count, c.coils}});
  Array<cfloat> image = context.allocate<cfloat>(images);
  const NufftTuning usual = default_tuning(static_cast<int>(dims), c.options.kernel_width, backend);
  std::vector<double> defaults, gains;
  std::vector<std::string> chosen;
  double control = 0;
  for (auto _ : state) {
    for (int t = 0; t < kTuners; ++t) {
      NufftTuner tuner{std::string()};
      tuner.tuned(context, coordinates, c.image, c.options, c.coils);
      tuner.try_next(bench_resources());
      const NufftTuning found = tuner.tuned(context, coordinates, c.image, c.options, c.coils);
      chosen.push_back(found == usual ? "default" : describe(found));
      std::vector<std::shared_ptr<const NufftPlan>> plans;
      for (const NufftTuning& tuning : {usual, found, usual})
        plans.push_back(NufftPlan::make(context, coordinates, c.image, c.options, tuning));
      std::array<std::vector<double>, 3> seconds;
      const auto transform = [&](std::size_t which) {
        const double begin = clock_seconds(backend);
        plans[which]->adjoint(context, samples.view(), {}, image.view());
        context.synchronize();
        return clock_seconds(backend) - begin;
      };
      for (std::size_t which = 0; which < plans.size(); ++which) transform(which);
      double sum = 0;
      for (std::size_t round = 0; round < kLeastRounds || sum < kSecondsPerTuner; ++round)
        for (std::size_t i = 0; i < plans.size(); ++i) {
          const std::size_t which = (i + round) % plans.size();
          seconds[which].push_back(transform(which));
          sum += seconds[which].back();
        }
      const double base = median(seconds[0]);
      defaults.push_back(base);
      gains.push_back(100 * (1 - median(seconds[1]) / base));
      if (const double same = 100 * (1 - median(seconds[2]) / base); std::abs(same) > std::abs(control)) control = same;
    }
    state.SetIterationTime(median(defaults));
  }
  state.SetLabel(fmt::format("{}", fmt::join(chosen, "; ")));
  state.counters["gain_low"] = *std::min_element(gains.begin(), gains.end());
  state.counters["gain"] = median(gains);
  state.counters["gain_high"] = *std::max_element(gains.begin(), gains.end());
  state.counters["control"] = control;
}

}  // namespace echotrain::bench
