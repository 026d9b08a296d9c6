// Trajectories by impulse responses, against responses in closed form and a plain sum in float64.
#include "gadgets/numerics/mri/trajectory/girf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <string>

namespace echotrain::numerics {
namespace {

using std::numbers::pi;
using Complex = std::complex<double>;
using Axes = std::array<std::array<double, 3>, 3>;
constexpr Axes kStraight{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
constexpr double kDwell = 5e-6;

/// A table from -100 to 100 kHz in steps of 20 Hz.
Girf table(const std::function<Complex(std::size_t, double)>& response, double lowest = -1e5) {
  Girf out;
  for (double f = lowest; f <= 1e5 + 1; f += 20) {
    out.hz.push_back(f);
    for (std::size_t a = 0; a < 3; ++a) out.of_axis[a].push_back(response(a, f));
  }
  return out;
}

/// A trapezoid of a gradient along the axis, from rest: positions of its integral, [sample, 2], on axis 0.
double area(double t) {  // ramps of 0.2 ms, flat for 0.6 ms
  const double ramp = 2e-4, flat = 6e-4;
  const auto half = [&](double u) { return u <= 0 ? 0 : u >= ramp ? u - ramp / 2 : u * u / (2 * ramp); };
  return half(t) - half(t - ramp - flat);
}
std::vector<double> trapezoid(std::int64_t samples, const std::function<double(double)>& k) {
  std::vector<double> out;
  for (std::int64_t s = 0; s < samples; ++s) out.insert(out.end(), {1e3 * k(static_cast<double>(s) * kDwell), 0});
  return out;
}

TEST(Girf, ADelayDelays) {
  // Whole samples late: nothing is interpolated. The table's straight lines between frequencies 20 Hz apart are good to
  // (2 pi 20 delay)^2 / 8, 5e-7 here.
  const double delay = 3 * kDwell;
  const Girf girf = table([&](std::size_t, double f) { return std::polar(1.0, -2 * pi * f * delay); });
  ASSERT_STREQ(problem_of(girf), "");
  const std::int64_t n = 220;
  std::vector<double> k = trapezoid(n, area);
  GirfFilter(girf, n, kDwell).move(kStraight, {k.data(), {n, 2}});
  const auto truth = trapezoid(n, [&](double t) { return area(t - delay); });
  for (std::size_t i = 0; i < truth.size(); ++i) EXPECT_NEAR(k[i], truth[i], 2e-6) << i;
}

TEST(Girf, ASpokeMovesByTheDelayOfTheLowestFrequencies) {
  // A constant gradient: of H only the slope of the phase at 0 Hz matters, 4, 5 and 6 us.
  const Girf girf = table([](std::size_t a, double f) {
    return std::polar(1 / (1 + std::pow(f / 3e4, 2)), -2 * pi * f * (4e-6 + 1e-6 * static_cast<double>(a)));
  });
  const std::int64_t n = 128;
  std::vector<double> k;
  for (std::int64_t s = 0; s < n; ++s) {
    const double r = static_cast<double>(s - 64);
    k.insert(k.end(), {0.6 * r, -0.8 * r, 0.5 * r});
  }
  GirfFilter(girf, n, kDwell).move(kStraight, {k.data(), {n, 3}});
  const double direction[] = {0.6, -0.8, 0.5};
  for (std::int64_t s = 0; s < n; ++s)
    for (std::size_t a = 0; a < 3; ++a)
      EXPECT_NEAR(k[static_cast<std::size_t>(3 * s) + a],
                  direction[a] * (static_cast<double>(s - 64) - (4e-6 + 1e-6 * static_cast<double>(a)) / kDwell), 2e-4);
}

TEST(Girf, ALowPassLagsAsItsDifferentialEquationSays) {
  // H = 1 / (1 + 2 pi i f tau): tau k' + k = k0, integrated here in steps of a 50th of the dwell time. The band ends at
  // 100 kHz, where H has fallen to 1/19: the corners of the trapezoid lose that.
  const double tau = 3e-5;
  const Girf girf = table([&](std::size_t, double f) { return 1.0 / Complex(1, 2 * pi * f * tau); });
  const std::int64_t n = 220;
  std::vector<double> k = trapezoid(n, area);
  GirfFilter(girf, n, kDwell).move(kStraight, {k.data(), {n, 2}});
  double state = 0;
  const int fine = 50;
  for (std::int64_t s = 0; s < n; ++s) {
    if (s > 0)
      for (int i = 0; i < fine; ++i) {
        const double t = (static_cast<double>(s - 1) + (i + 0.5) / fine) * kDwell;
        state += (1e3 * area(t) - state) * (1 - std::exp(-kDwell / fine / tau));
      }
    // 1e-3 of the largest k (0.8), 1/30 of the lag.
    EXPECT_NEAR(k[static_cast<std::size_t>(2 * s)], state, 1e-3) << s;
  }
}

TEST(Girf, IsThePlainSumOverFrequenciesInPhysicalAxes) {
  // An oblique slice, axes with responses of their own: the impulse responses on the same circle of time as the
  // filter's, by a plain sum over frequencies, and then a plain convolution.
  const Girf girf = table([](std::size_t a, double f) {
    const double g = f / (1e4 * (1.0 + 0.5 * static_cast<double>(a)));
    return Complex(std::exp(-g * g / 8), 0) * std::polar(1.0, -2 * pi * f * 3e-6 * static_cast<double>(a + 1));
  });
  const double c = std::cos(0.5), s = std::sin(0.5), c2 = std::cos(1.1), s2 = std::sin(1.1);
  const Axes axes{{{c, s, 0}, {-s * c2, c * c2, s2}, {s * s2, -c * s2, c2}}};
  const std::int64_t n = 64, before = 400;  // 2 ms
  std::vector<double> k;
  for (std::int64_t i = 0; i < n; ++i) {
    const double t = static_cast<double>(i) / n;
    k.insert(k.end(), {t * std::cos(9 * t), t * std::sin(9 * t)});  // a spiral, from rest
  }
  const std::vector<double> nominal = k;
  GirfFilter(girf, n, kDwell).move(axes, {k.data(), {n, 2}});
  const std::int64_t circle = 2048;  // the least power of two that holds n + 3 * 400
  std::vector<Complex> turns;
  for (std::int64_t t = 0; t < circle; ++t)
    turns.push_back(std::polar(1.0, 2 * pi * static_cast<double>(t) / static_cast<double>(circle)));
  std::vector<double> truth(nominal.size());
  for (std::size_t axis = 0; axis < 3; ++axis) {
    std::vector<double> impulse(static_cast<std::size_t>(circle)), step(static_cast<std::size_t>(n + before));
    for (std::int64_t m = -circle / 2; m <= circle / 2; ++m) {
      const double half = std::abs(m) == circle / 2 ? 0.5 : 1;
      const Complex h = half / static_cast<double>(circle) *
                        girf.at(axis, static_cast<double>(m) / (static_cast<double>(circle) * kDwell));
      for (std::int64_t t = 0; t < circle; ++t) {
        const Complex& turn = turns[static_cast<std::size_t>(((m * t) % circle + circle) % circle)];
        impulse[static_cast<std::size_t>(t)] += h.real() * turn.real() - h.imag() * turn.imag();
      }
    }
    double at = 0;
    for (std::int64_t i = 0; i < n + before; ++i) {
      const std::int64_t sample = std::min(i, n - 1);
      const double now = nominal[static_cast<std::size_t>(2 * sample)] * axes[0][axis] +
                         nominal[static_cast<std::size_t>(2 * sample) + 1] * axes[1][axis];
      step[static_cast<std::size_t>(i)] = now - at;
      at = now;
    }
    const double last = step[static_cast<std::size_t>(n - 1)];
    for (std::int64_t i = n; i < n + before; ++i) step[static_cast<std::size_t>(i)] = last;
    double sum = 0;
    for (std::int64_t out = -200; out < n; ++out) {
      for (std::int64_t i = 0; i < n + before; ++i)
        sum += step[static_cast<std::size_t>(i)] * impulse[static_cast<std::size_t>((out - i + 2 * circle) % circle)];
      if (out < 0) continue;
      for (std::size_t a = 0; a < 2; ++a) truth[static_cast<std::size_t>(2 * out) + a] += sum * axes[a][axis];
    }
  }
  for (std::size_t i = 0; i < truth.size(); ++i) EXPECT_NEAR(k[i], truth[i], 1e-6) << i;
}

TEST(Girf, OneSidedTablesAreThoseOfRealSystems) {
  const auto response = [](std::size_t, double f) { return std::polar(1.0, -2 * pi * f * 1e-5); };
  const std::int64_t n = 100;
  std::vector<double> both = trapezoid(n, area), one = both;
  GirfFilter(table(response), n, kDwell).move(kStraight, {both.data(), {n, 2}});
  GirfFilter(table(response, 0), n, kDwell).move(kStraight, {one.data(), {n, 2}});
  for (std::size_t i = 0; i < both.size(); ++i) EXPECT_NEAR(both[i], one[i], 1e-12);
}

TEST(Girf, TablesThatCannotBeUsedAreNamed) {
  const auto says = [](const Girf& girf, const std::string& part) {
    EXPECT_NE(std::string(problem_of(girf)).find(part), std::string::npos) << problem_of(girf);
  };
  const auto one = [](std::size_t, double) { return Complex(1); };
  says({}, "two frequencies");
  Girf backwards = table(one);
  std::swap(backwards.hz[4], backwards.hz[5]);
  says(backwards, "ascend");
  Girf high = table(one);
  for (double& f : high.hz) f += 2e5;
  says(high, "include 0");
  says(table([](std::size_t, double) { return Complex(1000); }), "near 1");
}

}  // namespace
}  // namespace echotrain::numerics
