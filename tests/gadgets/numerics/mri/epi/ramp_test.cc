// The samples of a trapezoidal gradient lie where they should, and lines made of them agree with sums in float64.
#include "gadgets/numerics/mri/epi/ramp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string>

namespace echotrain::testing {
namespace {

using numerics::Trapezoid;

constexpr Trapezoid kGradient{190, 160, 190, 32, 3.5, 136};

/// The integral of the gradient by small steps.
double slow_area(const Trapezoid& g, double time) {
  double sum = 0;
  const int steps = 200000;
  for (int i = 0; i < steps; ++i) {
    const double t = time * (i + 0.5) / steps, end = g.ramp_up + g.flat + g.ramp_down;
    const double height = t < g.ramp_up ? t / g.ramp_up : t < g.ramp_up + g.flat ? 1 : (end - t) / g.ramp_down;
    sum += height * time / steps;
  }
  return sum;
}

TEST(RampTest, PositionsAreTheGradientsIntegral) {
  const Trapezoid uneven{100, 160, 150, 20, 4, 90};
  for (const Trapezoid& g : {kGradient, uneven}) {
    const double whole = slow_area(g, g.ramp_up + g.flat + g.ramp_down);
    const double end = g.delay + static_cast<double>(g.samples) * g.dwell;
    const double step = (slow_area(g, end) - slow_area(g, g.delay)) / 96;
    const auto positions = numerics::trapezoid_positions(g, 96);
    const auto late = numerics::trapezoid_positions(g, 96, 2.5);
    ASSERT_EQ(static_cast<std::int64_t>(positions.size()), g.samples);
    for (std::size_t s = 0; s < positions.size(); s += 15) {
      const double time = g.delay + (static_cast<double>(s) + 0.5) * g.dwell;
      EXPECT_NEAR(positions[s], (slow_area(g, time) - whole / 2) / step, 1e-4);
      EXPECT_NEAR(late[s], (slow_area(g, time - 2.5) - whole / 2) / step, 1e-4);
    }
  }
}

TEST(RampTest, AFlatReadoutIsRegular) {
  const Trapezoid flat{210, 240, 210, 210, 4, 60};
  const auto positions = numerics::trapezoid_positions(flat, 60);
  EXPECT_TRUE(numerics::is_regular(positions, 60));
  EXPECT_NEAR(positions[29], -0.5, 1e-9);
  EXPECT_NEAR(positions[30], 0.5, 1e-9);
  EXPECT_FALSE(numerics::is_regular(positions, 64));
  EXPECT_FALSE(numerics::is_regular(numerics::trapezoid_positions(kGradient, 136), 136));
}

/// k-space of a few points within `part` of the field of view of `n` pixels, at step k.
std::complex<double> points_at(double k, double n, double part = 1) {
  std::complex<double> sum = 0;
  const double places[] = {-0.31, -0.05, 0.02, 0.4}, sizes[] = {1, -0.6, 2, 0.3};
  for (int p = 0; p < 4; ++p)
    sum += std::polar(1.0, -2 * std::numbers::pi * k * part * places[p]) * sizes[p] * std::exp(-k * k / (n * n / 30));
  return sum;
}

TEST(RampTest, WeightsMakeARegularLine) {
  for (const std::int64_t n : {96, 95})
    for (const bool descending : {false, true}) {
      auto positions = numerics::trapezoid_positions(kGradient, n);
      if (descending)
        for (double& k : positions) k = -k;
      positions[3] = std::numeric_limits<double>::quiet_NaN();  // left out, where samples are close
      const auto weights = numerics::regular_line_weights(positions, n, descending);
      double error = 0, size = 0;
      for (std::int64_t x = 0; x < n; ++x) {
        std::complex<double> sum = 0;
        for (std::size_t s = 0; s < positions.size(); ++s)
          if (!std::isnan(positions[s]))
            sum += double{weights[s * static_cast<std::size_t>(n) + static_cast<std::size_t>(x)]} *
                   points_at(positions[s], static_cast<double>(n));
        const auto k = static_cast<double>((descending ? n - 1 - x : x) - n / 2);
        error += std::norm(sum - points_at(k, static_cast<double>(n)));
        size += std::norm(points_at(k, static_cast<double>(n)));
      }
      EXPECT_LT(std::sqrt(error / size), 1e-3) << n << " " << descending;
      EXPECT_EQ(weights[3 * static_cast<std::size_t>(n)], 0);
    }
}

/// Siemens' lines of 80 pixels, oversampled twice: 160 samples for 160 steps lie up to 1.26 steps apart. A profile
/// within the images' half of the field of view is right; without that half being all that is needed, lines are
/// refused.
TEST(RampTest, SamplesFurtherApartThanAStep) {
  const Trapezoid twofold{160, 240, 160, 32, 3.1, 160};
  const std::int64_t n = 160;
  const auto positions = numerics::trapezoid_positions(twofold, n);
  EXPECT_NEAR(positions[80] - positions[79], 496 / 393.6, 1e-9);  // of the whole area in 496 us
  EXPECT_THROW(numerics::regular_line_weights(positions, n, false), std::invalid_argument);
  EXPECT_THROW(numerics::regular_line_weights(positions, n, false, 0.9), std::invalid_argument);
  for (const bool descending : {false, true}) {
    const auto weights = numerics::regular_line_weights(positions, n, descending, 0.5);
    double error = 0, size = 0;
    for (std::int64_t x = 0; x < n; ++x) {
      std::complex<double> sum = 0;
      for (std::size_t s = 0; s < positions.size(); ++s)
        sum += double{weights[s * 160 + static_cast<std::size_t>(x)]} * points_at(positions[s], 160, 0.5);
      const auto k = static_cast<double>((descending ? n - 1 - x : x) - n / 2);
      error += std::norm(sum - points_at(k, 160, 0.5));
      size += std::norm(points_at(k, 160, 0.5));
    }
    EXPECT_LT(std::sqrt(error / size), 1e-3) << descending;  // as lines of closer samples
  }
}

std::string refusal(const Trapezoid& gradient) {
  try {
    numerics::regular_line_weights(numerics::trapezoid_positions(gradient, 96), 96, false);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "(none)";
}

TEST(RampTest, GradientsThatDoNotFitAreRefused) {
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has(refusal({190, 160, 190, 80, 3.5, 136}), "end at 556 us, but the gradient ends at 540 us"));
  EXPECT_TRUE(has(refusal({0, 0, 0, 0, 3.5, 136}), "cannot be sampled"));
  EXPECT_TRUE(has(refusal({190, 160, 190, 32, 0, 136}), "cannot be sampled"));
  EXPECT_TRUE(has(refusal({190, 160, 190, 32, 5.6, 85}), "steps of k-space apart"));
  EXPECT_TRUE(has(refusal({190, 160, 190, 0, 2, 136}), "but a line has -48 to 47"));
}

}  // namespace
}  // namespace echotrain::testing
