// Breathing from the centre of k-space: bodies whose centre is known in closed form, and the verdicts on others.
#include "gadgets/readouts/gating/self_navigator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

using std::numbers::pi;
constexpr double kForever = std::numeric_limits<double>::infinity();

/// Breaths of 3 to 5 s, each sin^4: how deep at a time.
class Breaths {
 public:
  explicit Breaths(unsigned seed, double scale = 1) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> length(3000 * scale, 5000 * scale);
    while (begins_.back() < 200000) begins_.push_back(begins_.back() + length(random));
  }
  double depth(double ms) const {
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), ms);
    return std::pow(std::sin(pi * (ms - after[-1]) / (after[0] - after[-1])), 4);
  }

 private:
  std::vector<double> begins_{0};
};

/// Blobs before coils: the centre of k-space is the integral of a Gaussian times a Gaussian. The liver moves by 15 mm
/// with breathing, the heart beats, the rest stays; the signal drifts by 5 % a minute; noise.
class Body {
 public:
  Body(const Breaths& breaths, int coils, double noise, double sign = 1, double beat_ms = 950)
      : breaths_(breaths), coils_(coils), noise_(0, noise), sign_(sign), beat_ms_(beat_ms) {}
  std::vector<std::complex<float>> centre(double ms) {
    struct Blob {
      double amplitude, place_mm, width_mm;
    };
    const Blob blobs[] = {{1, 0, 80},
                          {0.5, -60 + sign_ * 15 * breaths_.depth(ms), 25},
                          {0.3 * (1 + 0.3 * std::cos(2 * pi * ms / beat_ms_)), 40, 20}};
    std::vector<std::complex<float>> out;
    for (int c = 0; c < coils_; ++c) {
      const double coil_mm = -100 + 200.0 * c / std::max(1, coils_ - 1), coil_width_mm = 50;
      double sum = 0;
      for (const Blob& blob : blobs) {
        const double square = blob.width_mm * blob.width_mm + coil_width_mm * coil_width_mm;
        const double away = blob.place_mm - coil_mm;
        sum += blob.amplitude * coil_width_mm / std::sqrt(square) * std::exp(-away * away / (2 * square));
      }
      const double real = noise_(random_), imaginary = noise_(random_);  // in this order with every compiler
      out.emplace_back(std::polar(sum * (1 + 0.05 * ms / 60000), 0.7 * c) + std::complex<double>(real, imaginary));
    }
    return out;
  }

 private:
  const Breaths& breaths_;
  int coils_;
  std::mt19937 random_{5};
  std::normal_distribution<double> noise_;
  double sign_, beat_ms_;
};

/// The correlation of the signal with the breaths' depth; all of the scan has to be told.
double correlation(Body& body, const Breaths& breaths, double step_ms, double until_ms,
                   const SelfNavigator::Options& options = {}) {
  const auto resources = test_resources(1);
  SelfNavigator navigator(resources->threads(), options);
  std::vector<double> signals, depths, times;
  const auto ask = [&](double now) {
    navigator.judge(now);
    for (; signals.size() < times.size(); depths.push_back(breaths.depth(times[signals.size() - 1]))) {
      const auto state = navigator.state(times[signals.size()]);
      if (!state) return;
      EXPECT_EQ(state->verdict, SelfNavigator::Verdict::told);
      signals.push_back(state->signal);
    }
  };
  for (double ms = 1000; ms < until_ms; ms += step_ms) {
    navigator.expect(ms);
    navigator.add(ms, body.centre(ms));
    times.push_back(ms);
    if (navigator.ready(ms)) ask(ms);
  }
  EXPECT_GT(signals.size(), times.size() / 2);  // while the scan went on
  ask(kForever);
  EXPECT_EQ(signals.size(), times.size());
  double sums[5] = {};
  for (std::size_t i = 0; i < signals.size(); ++i) {
    const double s = signals[i], d = depths[i];
    const double terms[5] = {s, d, s * s, d * d, s * d};
    for (int k = 0; k < 5; ++k) sums[k] += terms[k] / static_cast<double>(signals.size());
  }
  return (sums[4] - sums[0] * sums[1]) / std::sqrt((sums[2] - sums[0] * sums[0]) * (sums[3] - sums[1] * sums[1]));
}

TEST(SelfNavigatorTest, TheSignalIsTheBreathWhateverItsPolarity) {
  const Breaths breaths(1);
  for (const double sign : {1.0, -1.0})
    for (const int coils : {1, 6}) {
      Body body(breaths, coils, 0.002, sign);
      EXPECT_GT(correlation(body, breaths, 50, 90000), 0.95) << coils << " coils, sign " << sign;
    }
}

TEST(SelfNavigatorTest, OfHundredsOfCoilsThoseThatSeeTheBreathCount) {
  const Breaths breaths(1);
  Body body(breaths, 300, 0.002);
  EXPECT_GT(correlation(body, breaths, 50, 60000), 0.95);
}

TEST(SelfNavigatorTest, CentresThatComeSeldomOrOftenAreEnough) {
  for (const double step : {5.0, 250.0})
    for (const unsigned seed : {2u, 3u, 4u, 5u, 6u}) {
      const Breaths breaths(seed);
      Body body(breaths, 6, 0.002);
      EXPECT_GT(correlation(body, breaths, step, 60000), 0.95) << step << " ms, seed " << seed;
    }
  // So seldom that the sign may be wrong.
  const Breaths breaths(2);
  Body body(breaths, 6, 0.002);
  EXPECT_GT(std::abs(correlation(body, breaths, 470, 60000)), 0.95);
}

TEST(SelfNavigatorTest, AMouseBreathesFaster) {
  const Breaths breaths(3, 0.2);  // every 0.8 s
  Body body(breaths, 4, 0.002, 1, 118);
  EXPECT_GT(correlation(body, breaths, 8, 20000, {.low_hz = 0.5, .high_hz = 4}), 0.9);
}

TEST(SelfNavigatorTest, PositionsAreSharesOfTheWindow) {
  const Breaths breaths(4);
  Body body(breaths, 6, 0);
  const auto resources = test_resources(1);
  SelfNavigator navigator(resources->threads(), {});
  std::vector<double> times;
  for (double ms = 0; ms < 60000; ms += 100) {
    navigator.expect(ms);
    navigator.add(ms, body.centre(ms));
    times.push_back(ms);
  }
  navigator.judge(kForever);
  double kept = 0, kept_depth = 0, left_depth = 0;
  for (const double ms : times) {
    const auto state = navigator.state(ms);
    ASSERT_TRUE(state);
    EXPECT_GT(state->position, 0);
    EXPECT_LT(state->position, 1);
    const bool keep = state->position < 0.5;
    kept += keep;
    (keep ? kept_depth : left_depth) += breaths.depth(ms);
  }
  const auto all = static_cast<double>(times.size());
  EXPECT_NEAR(kept / all, 0.5, 0.05);
  EXPECT_LT(kept_depth / kept, 0.1);
  EXPECT_GT(left_depth / (all - kept), 0.5);
}

TEST(SelfNavigatorTest, WhenItIsAskedDoesNotShow) {
  const Breaths breaths(5);
  std::vector<std::vector<double>> answers;
  for (const double between : {1.0, 700.0, 30000.0}) {
    Body body(breaths, 3, 0.01);
    const auto resources = test_resources(1);
    SelfNavigator navigator(resources->threads(), {});
    std::vector<double>& found = answers.emplace_back();
    std::vector<double> times;
    double asked = 0;
    const auto ask = [&](double now) {
      navigator.judge(now);
      while (found.size() < times.size()) {
        const auto state = navigator.state(times[found.size()]);
        if (!state) return;
        found.push_back(state->signal);
      }
    };
    for (double ms = 0; ms < 70000; ms += 90) {
      navigator.expect(ms);
      navigator.add(ms, body.centre(ms));
      times.push_back(ms);
      if (ms - asked < between) continue;
      asked = ms;
      ask(ms);
    }
    ask(kForever);
    EXPECT_EQ(found.size(), times.size());
  }
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_EQ(answers[0], answers[2]);
}

TEST(SelfNavigatorTest, WhatCannotBeToldIsSaid) {
  using Verdict = SelfNavigator::Verdict;
  const Breaths breaths(6);
  const auto verdict = [&](double from_ms, double until_ms, double step_ms, bool changes, bool centre) {
    Body body(breaths, 2, 0);
    const auto resources = test_resources(1);
    SelfNavigator navigator(resources->threads(), {});
    for (double ms = from_ms; ms < until_ms; ms += step_ms) {
      navigator.expect(ms);
      if (centre) navigator.add(ms, body.centre(changes ? ms : 0));
    }
    navigator.judge(kForever);
    const auto state = navigator.state(from_ms);
    EXPECT_TRUE(state);
    return state ? state->verdict : Verdict::told;
  };
  EXPECT_EQ(verdict(0, 30000, 100, true, true), Verdict::told);
  EXPECT_EQ(verdict(0, 30000, 100, true, false), Verdict::without_centre);
  EXPECT_EQ(verdict(0, 9000, 100, true, true), Verdict::too_short);
  EXPECT_EQ(verdict(0, 11000, 100, true, true), Verdict::told);
  EXPECT_EQ(verdict(0, 30000, 1100, true, true), Verdict::too_seldom);
  EXPECT_EQ(verdict(0, 30000, 100, false, true), Verdict::unchanging);
  EXPECT_EQ(verdict(1e13, 1e13 + 30000, 100, true, true), Verdict::told);  // a clock that did not begin at 0
}

TEST(SelfNavigatorTest, OldStretchesAreForgottenAndLateReadoutsAreJudged) {
  const Breaths breaths(7);
  Body body(breaths, 2, 0);
  const auto resources = test_resources(1);
  SelfNavigator navigator(resources->threads(), {});
  for (double ms = 0; ms < 120000; ms += 100) {
    navigator.expect(ms);
    navigator.add(ms, body.centre(ms));
    navigator.judge(ms);
  }
  EXPECT_FALSE(navigator.state(100));
  EXPECT_TRUE(navigator.state(100000));
  EXPECT_FALSE(navigator.state(119000));  // its window is not over
  navigator.expect(100);
  navigator.judge(120000);
  ASSERT_TRUE(navigator.state(100));
  EXPECT_EQ(navigator.state(100)->verdict, SelfNavigator::Verdict::without_centre);
}

}  // namespace
}  // namespace echotrain::testing
