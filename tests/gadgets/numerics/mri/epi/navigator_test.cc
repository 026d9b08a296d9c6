// The navigators tell the phases of lines that were made with known ones.
#include "gadgets/numerics/mri/epi/navigator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

namespace echotrain::testing {
namespace {

using numerics::cdouble;
using numerics::cfloat;
using numerics::Navigators;

constexpr std::int64_t kPoints = 40, kCoils = 2;

double place(std::int64_t i) { return static_cast<double>(i % kPoints - kPoints / 2); }

/// Lines that precess by `precession` each; every second one, from `first` on, is reversed and has the phase `of` x.
template <class Phase>
Navigators made(int lines, int first, double precession, Phase&& of) {
  Navigators out{kCoils, kPoints, {}, {}};
  for (int l = 0; l < lines; ++l) {
    const bool reversed = l % 2 == first;
    std::vector<cdouble> profile;
    for (std::int64_t i = 0; i < kCoils * kPoints; ++i) {
      const double x = place(i), size = std::exp(-x * x / 90) + 0.5 * std::exp(-(x - 9) * (x - 9) / 8);
      profile.push_back(
          std::polar(size * (i < kPoints ? 1.0 : 0.4), 0.05 * x * x + precession * l + (reversed ? of(x) : 0.0)));
    }
    out.profiles.push_back(std::move(profile));
    out.reversed.push_back(reversed);
  }
  return out;
}

std::vector<cdouble> of_all_coils(const std::vector<cdouble>& products) {
  std::vector<cdouble> out(kPoints);
  for (std::size_t i = 0; i < products.size(); ++i) out[i % kPoints] += products[i];
  return out;
}

TEST(NavigatorTest, ProfilesAreTransformsInFloat64) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const std::int64_t n : {12, 13}) {
    std::vector<cfloat> line;
    for (std::int64_t i = 0; i < 2 * n; ++i) line.emplace_back(normal(random), normal(random));
    for (const bool turned : {false, true}) {
      const auto profile = numerics::ProfileTransform(n)({line.data(), {2, n}}, turned);
      for (std::int64_t i = 0; i < 2 * n; ++i) {
        cdouble sum = 0;
        for (std::int64_t k = 0; k < n; ++k)
          sum += cdouble(line[static_cast<std::size_t>(i / n * n + (turned ? n - 1 - k : k))]) *
                 std::polar(1.0 / static_cast<double>(n), 2 * std::numbers::pi *
                                                              static_cast<double>((k - n / 2) * (i % n - n / 2)) /
                                                              static_cast<double>(n));
        EXPECT_LT(std::abs(profile[static_cast<std::size_t>(i)] - sum), 1e-12);
      }
    }
  }
}

TEST(NavigatorTest, LinearPhaseAndPrecession) {
  for (const int lines : {3, 4, 11})
    for (const int first : {0, 1}) {
      const Navigators set = made(lines, first, 0.7, [](double x) { return -0.4 + 0.31 * x; });
      EXPECT_NEAR(numerics::precession(set), 0.7, 1e-12);
      const auto products = of_all_coils(numerics::odd_even_products(set));
      const auto phase = numerics::linear_phase(products);
      EXPECT_NEAR(phase.constant, -0.4, 1e-9) << lines;
      EXPECT_NEAR(phase.slope, 0.31, 1e-9) << lines;
    }
  // Two lines: what spins precess in between stays in the constant.
  const Navigators two = made(2, 1, 0.2, [](double x) { return 0.1 * x; });
  EXPECT_EQ(numerics::precession(two), 0);
  EXPECT_NEAR(numerics::linear_phase(of_all_coils(numerics::odd_even_products(two))).constant, 0.2, 1e-9);
  EXPECT_TRUE(numerics::odd_even_products(made(1, 1, 0, [](double) { return 0.0; })).empty());
  EXPECT_TRUE(numerics::odd_even_products(made(3, 7, 0, [](double) { return 0.0; })).empty());  // none is reversed
}

TEST(NavigatorTest, EachReversedLineHasAProductOfItsOwn) {
  Navigators set = made(6, 1, 0.7, [](double x) { return 0.2 - 0.1 * x; });
  for (cdouble& value : set.profiles[3]) value *= std::polar(1.0, 0.3);
  for (const std::size_t line : {1u, 3u}) {
    const auto phase = numerics::linear_phase(of_all_coils(numerics::odd_even_products(set, line)));
    EXPECT_NEAR(phase.constant, line == 3 ? 0.5 : 0.2, 1e-9);
    EXPECT_NEAR(phase.slope, -0.1, 1e-9);
  }
  for (const std::size_t line : {0u, 2u, 5u}) EXPECT_TRUE(numerics::odd_even_products(set, line).empty()) << line;
}

TEST(NavigatorTest, PointwisePhaseFollowsWhatALineCannot) {
  const auto bent = [](double x) { return 0.2 + 0.1 * x + 0.004 * x * x; };
  const auto products = of_all_coils(numerics::odd_even_products(made(3, 1, 0, bent)));
  const auto line = numerics::linear_phase(products);
  std::vector<double> straight;
  for (std::int64_t x = 0; x < kPoints; ++x) straight.push_back(line.constant + line.slope * place(x));
  const auto phases = numerics::pointwise_phase(products, line);
  for (std::int64_t x = kPoints / 2 - 6; x < kPoints / 2 + 10; ++x)
    EXPECT_NEAR(phases[static_cast<std::size_t>(x)], bent(place(x)), 0.05);  // of 0.3, smoothed
  EXPECT_GT(numerics::ghost_level(products, straight), 2 * numerics::ghost_level(products, phases));
}

/// Where spins precess by a quarter turn from echo to echo, the precession between two lines is a half turn of either
/// sign: all lines take the same one, else their phases would be a half turn apart.
TEST(NavigatorTest, SingleLinesTakeTheTrainsPrecession) {
  Navigators set = made(21, 1, std::numbers::pi / 2, [](double x) { return -0.4 + 0.1 * x; });
  for (std::size_t l = 0; l < set.profiles.size(); ++l)
    for (cdouble& value : set.profiles[l]) value *= std::polar(1.0, l % 4 < 2 ? 0.01 : -0.01);
  const auto all = of_all_coils(numerics::odd_even_products(set));
  for (std::size_t l = 1; l < set.profiles.size(); l += 2) {
    const auto one = of_all_coils(numerics::odd_even_products(set, l));
    for (std::size_t x = 10; x < 30; ++x) EXPECT_LT(std::abs(std::arg(one[x] / all[x])), 0.05) << l;
  }
}

TEST(NavigatorTest, GhostLevelIsTheTangentOfHalfThePhase) {
  const std::vector<cdouble> products(8, std::polar(3.0, 0.6));
  EXPECT_NEAR(numerics::ghost_level(products, std::vector<double>(8, 0.4)), std::tan(0.1), 1e-12);
  EXPECT_EQ(numerics::ghost_level(std::vector<cdouble>(8), std::vector<double>(8)), 0);
}

TEST(NavigatorTest, MirroredLinesAreKnown) {
  Navigators set = made(3, 1, 0, [](double) { return 0.0; });
  EXPECT_FALSE(numerics::looks_mirrored(set));
  auto& middle = set.profiles[1];
  const std::vector<cdouble> before = middle;
  for (std::int64_t i = 0; i < kCoils * kPoints; ++i)
    middle[static_cast<std::size_t>(i)] =
        before[static_cast<std::size_t>(i / kPoints * kPoints + (kPoints - i % kPoints) % kPoints)];
  EXPECT_TRUE(numerics::looks_mirrored(set));
}

}  // namespace
}  // namespace echotrain::testing
