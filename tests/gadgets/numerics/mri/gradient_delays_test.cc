// Delays that spokes tell, against spokes whose k-space is known in closed form at the delayed places.
#include "gadgets/numerics/mri/trajectory/gradient_delays.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

#include "tests/gadgets/blob.h"

namespace echotrain::numerics {
namespace {

using std::numbers::pi;
using testing::Blob;

constexpr double kGolden = pi * 0.6180339887498949;  // 111.246 degrees
constexpr GradientDelays kTruth{-0.6, 0.45, 0.2};

/// Three blobs along a diagonal, in 48 pixels of 2 x 64 sampled, seen by coils as complex mixtures: what changes across
/// a spoke changes along it, too.
cdouble value(std::int64_t coil, const double* k) {
  static const Blob blobs[] = {{2, {13, 10, 0}, 3}, {2, {-14, -8, 0}, 2}, {2, {2, 4, 0}, 4}};
  cdouble out;
  for (std::size_t b = 0; b < 3; ++b)
    out += std::polar(1 + 0.4 * std::cos(static_cast<double>(coil) + 2.0 * static_cast<double>(b)),
                      0.7 * static_cast<double>(coil) * static_cast<double>(b)) *
           blobs[b].kspace(k);
  return out;
}

struct Made {
  std::int64_t coils = 4, samples = 128;
  double first = -64;        // of the nominal places
  double noise = 0;          // relative to the largest value
  bool spoke_phase = false;  // each spoke has a phase of its own
};

Spokes spokes(const std::vector<double>& angles, const GradientDelays& delays, const Made& made = {}) {
  Spokes out;
  out.samples = made.samples;
  out.channels = made.coils;
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  double largest = 0;
  std::vector<cdouble> values;
  for (const double angle : angles) {
    const Plane n{std::cos(angle), std::sin(angle)}, shift = delays.shift(n);
    out.directions.push_back(n);
    out.first.push_back(made.first);
    const cdouble turn = std::polar(1.0, made.spoke_phase ? 0.5 * std::sin(3 * angle + 1) : 0.0);
    for (std::int64_t s = 0; s < made.samples; ++s) {
      const double r = made.first + static_cast<double>(s);
      const double k[2] = {(r * n[0] + shift[0]) / 128, (r * n[1] + shift[1]) / 128};
      for (std::int64_t c = 0; c < made.coils; ++c) {
        values.push_back(turn * value(c, k));
        largest = std::max(largest, std::abs(values.back()));
      }
    }
  }
  for (const cdouble& v : values)
    out.data.emplace_back(v + made.noise * largest * cdouble(normal(random), normal(random)));
  return out;
}

std::vector<double> angles(std::int64_t count, double step) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<double>(i) * step);
  return out;
}

void expect_near(const DelayEstimate& estimate, const GradientDelays& truth, double within) {
  ASSERT_TRUE(estimate.delays) << estimate.reason;
  EXPECT_NEAR(estimate.delays->x, truth.x, within);
  EXPECT_NEAR(estimate.delays->y, truth.y, within);
  EXPECT_NEAR(estimate.delays->xy, truth.xy, within);
}

TEST(GradientDelays, RingFindsThemWhereverSpokesIntersect) {
  // Without noise nothing is in the way but the interpolation between samples (1e-4 of the largest value).
  for (const auto& [count, step] : {std::pair{30, kGolden}, {13, kGolden}, {31, 2 * pi / 31}, {40, pi / 40}})
    for (const std::int64_t coils : {1, 4}) {
      SCOPED_TRACE(std::to_string(count) + " spokes, coils " + std::to_string(coils));
      expect_near(ring(spokes(angles(count, step), kTruth, {.coils = coils})), kTruth, 2e-3);
      // k = 0 between two samples, delays of several samples.
      const GradientDelays far{2.5, -1.75, 0.3};
      expect_near(ring(spokes(angles(count, step), far, {.coils = coils, .first = -63.5})), far, 2e-3);
    }
}

TEST(GradientDelays, RingAllowsEachSpokeAPhase) {
  expect_near(ring(spokes(angles(30, kGolden), kTruth, {.spoke_phase = true})), kTruth, 2e-3);
}

TEST(GradientDelays, NoiseMovesThemLittle) {
  // What is asked of both methods in simulations; peak over noise is 200.
  const Made noisy{.noise = 0.005};
  expect_near(ring(spokes(angles(55, kGolden), kTruth, noisy)), kTruth, 0.05);
  expect_near(cross_correlation(spokes(angles(55, kGolden), kTruth, noisy)), kTruth, 0.02);
}

TEST(GradientDelays, OpposingSpokesNeedNotBeExactlyOpposite) {
  for (const auto& [count, step] : {std::pair{30, kGolden}, {55, kGolden}, {34, 2 * pi / 34}, {31, 2 * pi / 31}}) {
    SCOPED_TRACE(count);
    const auto made = spokes(angles(count, step), kTruth, {.spoke_phase = true});
    expect_near(cross_correlation(made), kTruth, 0.02);
  }
}

TEST(GradientDelays, WithoutDelaysThereAreNone) {
  expect_near(ring(spokes(angles(30, kGolden), {})), {}, 1e-3);
  expect_near(cross_correlation(spokes(angles(31, 2 * pi / 31), {})), {}, 5e-3);
}

TEST(GradientDelays, WhatCannotBeToldIsSaid) {
  const auto half = cross_correlation(spokes(angles(40, pi / 40), kTruth));
  EXPECT_FALSE(half.delays);
  EXPECT_NE(half.reason.find("oppose"), std::string::npos) << half.reason;
  const auto fan = ring(spokes(angles(40, 0.01), kTruth));
  EXPECT_FALSE(fan.delays);
  EXPECT_NE(fan.reason.find("too close"), std::string::npos) << fan.reason;
  // Noise alone: values have nothing in common.
  Spokes noise = spokes(angles(30, kGolden), {});
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (cfloat& v : noise.data) v = {normal(random), normal(random)};
  EXPECT_FALSE(ring(noise).delays);
  EXPECT_FALSE(cross_correlation(noise).delays);
  for (cfloat& v : noise.data) v = 0;
  EXPECT_FALSE(ring(noise).delays);
  EXPECT_FALSE(cross_correlation(noise).delays);
}

TEST(GradientDelays, TheWorkCanBeStopped) {
  const auto made = spokes(angles(13, kGolden), kTruth);
  int calls = 0;
  const auto stop = [&] {
    if (++calls == 2) throw std::runtime_error("stopped");
  };
  EXPECT_THROW(ring(made, stop), std::runtime_error);
  calls = 0;
  EXPECT_THROW(cross_correlation(made, stop), std::runtime_error);
}

TEST(GradientDelays, AreRoundedToThousandths) {
  const GradientDelays rounded = GradientDelays{-0.61449, 0.0004, 1.2346}.rounded();
  EXPECT_EQ(rounded.x, -0.614);
  EXPECT_EQ(rounded.y, 0);
  EXPECT_FALSE(std::signbit(GradientDelays{-0.0004, 0, 0}.rounded().x));
  EXPECT_EQ(rounded.xy, 1.235);
}

TEST(DelayPositions, SpokesMoveByTheMatrix) {
  for (const double angle : {0.0, 0.9, 2.5, 4.0}) {
    const Plane n{std::cos(angle), std::sin(angle)}, shift = kTruth.shift(n);
    std::vector<double> k;
    for (int s = 0; s < 20; ++s) k.insert(k.end(), {0.02 * (s - 10) * n[0], 0.02 * (s - 10) * n[1]});
    delay_positions(kTruth, {k.data(), {20, 2}});
    for (int s = 0; s < 20; ++s)
      for (std::size_t d = 0; d < 2; ++d)
        EXPECT_NEAR(k[static_cast<std::size_t>(2 * s) + d], 0.02 * ((s - 10) * n[d] + shift[d]), 1e-14);
  }
}

TEST(DelayPositions, CurvesAreDelayedInTime) {
  // A cubic in time is exact between samples; x is 0.3 samples late, y 1.6 early, and z stays.
  const auto at = [](double t) {
    return std::array<double, 2>{0.1 + 0.02 * t - 3e-4 * t * t, -0.2 + 1e-3 * t * t + 2e-5 * t * t * t};
  };
  std::vector<double> k;
  for (int s = 0; s < 24; ++s) k.insert(k.end(), {at(s)[0], at(s)[1], 0.01 * s});
  delay_positions({-0.3, 1.6, 0}, {k.data(), {24, 3}});
  for (int s = 2; s < 20; ++s) {
    EXPECT_NEAR(k[static_cast<std::size_t>(3 * s)], at(s - 0.3)[0], 1e-14);
    EXPECT_NEAR(k[static_cast<std::size_t>(3 * s) + 1], at(s + 1.6)[1], 1e-14);
    EXPECT_EQ(k[static_cast<std::size_t>(3 * s) + 2], 0.01 * s);
  }
}

TEST(SpokeValues, LieBetweenSamples) {
  const Spokes made = spokes({0.3}, {});
  const SpokeValues values(made);
  std::vector<cdouble> there, slope;
  double largest = 0;
  for (const cfloat& v : made.data) largest = std::max(largest, static_cast<double>(std::abs(v)));
  for (double r = -20; r < 20; r += 0.37) {
    const auto exact = [&](double at, std::int64_t coil) {
      const double k[2] = {at * std::cos(0.3) / 128, at * std::sin(0.3) / 128};
      return value(coil, k);
    };
    values.at(0, r, there, slope);
    for (std::int64_t c = 0; c < 4; ++c) {
      EXPECT_LT(std::abs(there[static_cast<std::size_t>(c)] - exact(r, c)), 1e-4 * largest) << r;
      const cdouble derivative = (exact(r + 1e-4, c) - exact(r - 1e-4, c)) / 2e-4;
      EXPECT_LT(std::abs(slope[static_cast<std::size_t>(c)] - derivative), 1e-3 * largest) << r;
    }
  }
  values.at(0, 200, there);
  EXPECT_EQ(there[0], cdouble{});  // beyond the end
}

}  // namespace
}  // namespace echotrain::numerics
