// Ramp density weights against areas, volumes and integrals that are known in closed form.
#include "gadgets/numerics/mri/density/density.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>

namespace echotrain::numerics {
namespace {

struct Trajectory {
  std::int64_t readouts, samples, dims;
  std::vector<double> k;
  std::vector<float> weights(double k_max = 0.5005) const {
    auto w = ramp_density({k.data(), {readouts, samples, dims}}, k_max);
    EXPECT_EQ(static_cast<std::int64_t>(w.size()), readouts * samples);
    for (float v : w) EXPECT_TRUE(std::isfinite(v) && v >= 0) << v;
    return w;
  }
  double radius(std::size_t s) const {
    double sum = 0;
    for (std::int64_t d = 0; d < dims; ++d)
      sum += std::pow(k[s * static_cast<std::size_t>(dims) + static_cast<std::size_t>(d)], 2);
    return std::sqrt(sum);
  }
};

double sum(const std::vector<float>& w) { return std::accumulate(w.begin(), w.end(), 0.0); }

/// Readouts along directions that cover the circle (`turn` of it) or sphere evenly; sample s of readout r at radius(r,
/// s).
Trajectory rays(std::int64_t readouts, std::int64_t samples, std::int64_t dims, double turn,
                const std::function<double(std::int64_t, std::int64_t)>& radius) {
  Trajectory t{readouts, samples, dims, {}};
  const double golden = std::numbers::pi * (3 - std::sqrt(5.0));
  for (std::int64_t r = 0; r < readouts; ++r) {
    double direction[3] = {0, 0, 0};
    if (dims == 2) {
      const double angle = 2 * std::numbers::pi * turn * static_cast<double>(r) / static_cast<double>(readouts);
      direction[0] = std::cos(angle);
      direction[1] = std::sin(angle);
    } else {
      const double z = 1 - (2 * static_cast<double>(r) + 1) / static_cast<double>(readouts) * (turn < 1 ? 0.5 : 1.0);
      direction[0] = std::sqrt(1 - z * z) * std::cos(golden * static_cast<double>(r));
      direction[1] = std::sqrt(1 - z * z) * std::sin(golden * static_cast<double>(r));
      direction[2] = z;
    }
    for (std::int64_t s = 0; s < samples; ++s)
      for (std::int64_t d = 0; d < dims; ++d) t.k.push_back(direction[d] * radius(r, s));
  }
  return t;
}

/// The Gaussian exp(-|r|^2 / (2 sigma^2)) has the transform (2 pi sigma^2)^(dims/2) exp(-2 pi^2 sigma^2 k^2), whose
/// integral over k-space is its value 1 at the origin. Returns that integral by the weights.
double blob_peak(const Trajectory& t, const std::vector<float>& w, double sigma) {
  double total = 0;
  for (std::size_t s = 0; s < w.size(); ++s)
    total += static_cast<double>(w[s]) * std::exp(-2 * std::pow(std::numbers::pi * sigma * t.radius(s), 2));
  return total * std::pow(2 * std::numbers::pi * sigma * sigma, static_cast<double>(t.dims) / 2);
}

TEST(RampDensity, DiameterSpokesCoverTheDisc) {
  const double n = 128;
  const auto t = rays(200, 128, 2, 0.5, [&](auto, auto s) { return (static_cast<double>(s) - n / 2) / n; });
  const auto w = t.weights();
  EXPECT_NEAR(sum(w), std::numbers::pi / 4, std::numbers::pi / 4 * 1.5 / (n * n));  // the two ends differ by one sample
  EXPECT_NEAR(blob_peak(t, w, 2), 1, 1e-3);
  // Away from the ends: the ring's area 2 pi r dr, shared by 400 arms; the centre: the small disc, shared by 200
  // samples.
  EXPECT_NEAR(w[74], 2 * std::numbers::pi * (10 / n) / n / 400, 1e-9);
  EXPECT_NEAR(w[64], std::numbers::pi / (4 * n * n) / 200, 1e-11);
}

TEST(RampDensity, DiameterSpokesCoverTheBall) {
  const double n = 64;
  const auto t = rays(900, 64, 3, 0.5, [&](auto, auto s) { return (static_cast<double>(s) - n / 2) / n; });
  const auto w = t.weights();
  EXPECT_NEAR(sum(w), std::numbers::pi / 6, std::numbers::pi / 6 * 5 / (n * n));
  // A shell's volume exceeds 4 pi r^2 h by 4 pi h^3 / 12, which adds (2 pi sigma h)^2 / 12 to the integral.
  EXPECT_NEAR(blob_peak(t, w, 2), 1 + std::pow(4 * std::numbers::pi / n, 2) / 12, 1e-4);
}

// An odd number of samples: symmetric, both ends at n/2 - 1/2.
TEST(RampDensity, OddSpokes) {
  const double n = 127;
  const auto t = rays(100, 127, 2, 0.5, [&](auto, auto s) { return (static_cast<double>(s) - 63) / n; });
  EXPECT_NEAR(sum(t.weights()), std::numbers::pi / 4, 1e-6);
}

// No sample at the centre; with the rounding of measured coordinates too.
TEST(RampDensity, SamplesAtHalfIntegers) {
  const double n = 128;
  for (const double jitter : {0.0, 1e-7}) {
    const auto t = rays(200, 128, 2, 0.5, [&](auto r, auto s) {
      return (static_cast<double>(s) - n / 2 + 0.5) / n + jitter * std::sin(static_cast<double>(37 * r + s));
    });
    const auto w = t.weights();
    EXPECT_NEAR(sum(w), std::numbers::pi / 4, 1e-5) << jitter;
    EXPECT_NEAR(blob_peak(t, w, 2), 1, 1e-3) << jitter;
  }
}

// Every spoke is delayed by another fraction of a sample.
TEST(RampDensity, DelayedSpokes) {
  const double n = 128;
  const auto t = rays(200, 128, 2, 0.5, [&](auto r, auto s) {
    return (static_cast<double>(s) - n / 2 + 0.9 * std::sin(static_cast<double>(r))) / n;
  });
  const auto w = t.weights(0.6);
  EXPECT_NEAR(sum(w), std::numbers::pi / 4, 0.01);
  EXPECT_NEAR(blob_peak(t, w, 2), 1, 2e-3);
}

TEST(RampDensity, CentreOut) {
  const double n = 100;
  const auto t = rays(150, 100, 2, 1, [&](auto, auto s) { return 0.5 * static_cast<double>(s) / n; });
  const auto w = t.weights();
  const double edge = 0.5 * 99.5 / n;
  EXPECT_NEAR(sum(w), std::numbers::pi * edge * edge, 1e-6);
  EXPECT_NEAR(blob_peak(t, w, 2), 1, 1e-3);
}

// The rays are as measured: they repeat k = 0, then speed up, and end at half the radius.
TEST(RampDensity, KooshBallThatRepeatsItsCentre) {
  for (const int repeats : {1, 4, 9}) {
    const auto radius = [&](auto, std::int64_t s) {
      const double t = static_cast<double>(std::max<std::int64_t>(0, s - repeats + 1));
      return t < 12 ? 1e-4 * t * t : 1e-4 * (144 + 24 * (t - 12));
    };
    const auto t = rays(800, 120, 3, 1, radius);
    const double last = radius(0, 119), edge = last + 12e-4;
    const auto w = t.weights();
    EXPECT_NEAR(sum(w), 4.0 / 3 * std::numbers::pi * std::pow(edge, 3), 1e-6) << repeats;
    EXPECT_NEAR(blob_peak(t, w, 5), 1, 2e-3) << repeats;
    // The centre counts once, however often it is repeated.
    EXPECT_NEAR(w[0] * 800 * repeats, 4.0 / 3 * std::numbers::pi * std::pow(0.5e-4, 3), 1e-16) << repeats;
  }
}

// The repeated centre of a measured trajectory is not exactly 0.
TEST(RampDensity, NoisyCentre) {
  const auto t = rays(800, 100, 3, 1, [](auto r, std::int64_t s) {
    return s < 5 ? 1e-5 * std::abs(std::sin(static_cast<double>(17 * r + s))) : 2e-3 * static_cast<double>(s - 4);
  });
  const auto w = t.weights();
  EXPECT_NEAR(sum(w), 4.0 / 3 * std::numbers::pi * std::pow(2e-3 * 95.5, 3), 2e-5);
  EXPECT_NEAR(blob_peak(t, w, 8), 1, 5e-3);
}

/// Interleaves of a spiral with `turns` turns, radius 0.5 t^power.
Trajectory spiral(std::int64_t readouts, std::int64_t samples, double turns, double power, bool in_out) {
  Trajectory t{readouts, samples, 2, {}};
  for (std::int64_t r = 0; r < readouts; ++r)
    for (std::int64_t s = 0; s < samples; ++s) {
      double p = static_cast<double>(s) / static_cast<double>(samples - 1), sign = 1;
      if (in_out) {
        sign = p < 0.5 ? -1 : 1;
        p = std::abs(2 * p - 1);
      }
      const double radius = 0.49 * std::pow(p, power) * sign;
      const double angle = 2 * std::numbers::pi *
                           (turns * p + static_cast<double>(r) / static_cast<double>(readouts) * (in_out ? 0.5 : 1));
      t.k.push_back(radius * std::cos(angle));
      t.k.push_back(radius * std::sin(angle));
    }
  return t;
}

TEST(RampDensity, Spirals) {
  for (const bool in_out : {false, true})
    for (const double power : {1.0, 0.5, 1.7}) {
      const auto t = spiral(16, 2001, 8, power, in_out);
      const auto w = t.weights();
      EXPECT_NEAR(sum(w), std::numbers::pi * 0.49 * 0.49, 2e-3) << power << in_out;
      EXPECT_NEAR(blob_peak(t, w, 2), 1, 2e-3) << power << in_out;
    }
}

// A readout that starts late on one side: beyond its reach only the other arms share the shells.
TEST(RampDensity, PartialEcho) {
  const double n = 128;
  const auto t = rays(200, 80, 2, 1, [&](auto, auto s) { return (static_cast<double>(s) - 16) / n; });
  const auto w = t.weights();
  EXPECT_NEAR(sum(w), std::numbers::pi * std::pow(63.5 / n, 2), 0.01 * std::numbers::pi / 4);
  EXPECT_NEAR(w[66], 2 * std::numbers::pi * (50 / n) / n / 200, 1e-8);
  EXPECT_NEAR(w[22], 2 * std::numbers::pi * (6 / n) / n / 400, 1e-8);
}

// Spokes at uneven angles stand for uneven parts of the turn. The integral of exp(-2 pi^2 sigma^2 k^2) cos^2(angle)
// over the plane is half of 1 / (2 pi sigma^2); equal weights would miss it by tens of percent here.
TEST(RampDensity, UnevenAnglesShareTheTurnByTheirGaps) {
  constexpr std::int64_t kSpokes = 200, kSamples = 128;
  constexpr double kSigma = 2;
  Trajectory t{kSpokes, kSamples, 2, {}};
  for (std::int64_t r = 0; r < kSpokes; ++r) {
    const double even = 2 * std::numbers::pi * static_cast<double>(r) / kSpokes,
                 angle = even + 0.4 * std::sin(2 * even);
    for (std::int64_t s = 0; s < kSamples; ++s) {
      const double k = 0.5 * static_cast<double>(s) / kSamples;
      t.k.insert(t.k.end(), {k * std::cos(angle), k * std::sin(angle)});
    }
  }
  const auto w = t.weights();
  EXPECT_NEAR(sum(w), std::numbers::pi / 4, 1e-2);
  double integral = 0;
  for (std::size_t s = 0; s < w.size(); ++s) {
    const double x = t.k[2 * s], r2 = std::pow(t.radius(s), 2);
    const double cos2 = r2 > 0 ? x * x / r2 : 0.5;
    integral +=
        static_cast<double>(w[s]) * std::exp(-2 * std::numbers::pi * std::numbers::pi * kSigma * kSigma * r2) * cos2;
  }
  // Trapezoids over angle: gap^2 / 12 times the second derivative, below (2 pi / 200 * 1.8)^2 / 6 = 6e-4 of the value;
  // over radius as for even spokes.
  EXPECT_NEAR(integral / (0.5 / (2 * std::numbers::pi * kSigma * kSigma)), 1, 2e-3);
}

// Two spokes of one angle share what one would stand for.
TEST(RampDensity, EqualAnglesShareTheirPart) {
  const auto half_step = [](std::int64_t, std::int64_t s) { return 0.5 * (static_cast<double>(s) + 0.5) / 32; };
  Trajectory t = rays(16, 32, 2, 1, half_step);
  const auto single = t.weights();
  t.k.insert(t.k.end(), t.k.begin(), t.k.begin() + 64);
  ++t.readouts;
  const auto twice = t.weights();
  for (std::size_t s = 0; s < 32; ++s) {
    EXPECT_NEAR(twice[s], single[s] / 2, 1e-3 * static_cast<double>(single[s]));
    EXPECT_NEAR(twice[512 + s], single[s] / 2, 1e-3 * static_cast<double>(single[s]));
    EXPECT_NEAR(twice[32 + s], single[32 + s], 1e-3 * static_cast<double>(single[32 + s]));
  }
}

TEST(RampDensity, SamplesOutsideTakeNoPart) {
  const double n = 100;
  const auto t = rays(50, 140, 2, 1, [&](auto, auto s) { return 0.5 * static_cast<double>(s) / n; });
  const auto w = t.weights(0.5001);
  for (std::size_t s = 0; s < w.size(); ++s) EXPECT_EQ(w[s] > 0, t.radius(s) <= 0.5001);
  EXPECT_NEAR(sum(w), std::numbers::pi * std::pow(0.5 * 100.5 / n, 2), 1e-5);
}

TEST(RampDensity, BadCoordinates) {
  Trajectory zero{3, 7, 2, std::vector<double>(42, 0.0)};
  zero.weights();
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e300}) {
    Trajectory all{3, 7, 3, std::vector<double>(63, bad)};
    EXPECT_EQ(sum(all.weights()), 0);
    auto t = rays(50, 64, 2, 0.5, [](auto, auto s) { return (static_cast<double>(s) - 32) / 64; });
    t.k[20] = bad;
    const auto w = t.weights();
    EXPECT_EQ(w[10], 0.0f);
    EXPECT_NEAR(sum(w), std::numbers::pi / 4, 2e-3);
  }
  Trajectory one{5, 1, 2, std::vector<double>(10, 0.1)};
  one.weights();
  EXPECT_TRUE(ramp_density({nullptr, {0, 5, 2}}, 0.5).empty());
  const std::vector<double> k(8);
  EXPECT_THROW(ramp_density({k.data(), {2, 4, 1}}, 0.5), std::invalid_argument);
  EXPECT_THROW(ramp_density({k.data(), {4, 2}}, 0.5), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
