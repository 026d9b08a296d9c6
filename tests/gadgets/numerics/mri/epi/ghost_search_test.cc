// The phase that an image tells, of lines that were made with a known one.
#include "gadgets/numerics/mri/epi/ghost_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "gadgets/numerics/core/context.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

using numerics::cdouble;

constexpr std::int64_t kRows = 32, kWide = 30;

/// A disc's lines, transformed along x: [row], each [coil, x]; reversed ones have the phase.
std::vector<std::vector<cdouble>> disc_lines(double constant, double slope) {
  std::vector<std::vector<cdouble>> out;
  for (std::int64_t row = 0; row < kRows; ++row) {
    std::vector<cdouble> line;
    for (int coil = 0; coil < 2; ++coil)
      for (std::int64_t x = 0; x < kWide; ++x) {
        cdouble sum = 0;
        for (std::int64_t y = 0; y < kRows; ++y) {
          const double r = std::hypot(static_cast<double>(x) - 14, static_cast<double>(y) - 15);
          const double turns = static_cast<double>(row * y) / static_cast<double>(kRows);
          if (r < 7) sum += std::polar(1.0 + 0.3 * coil * std::cos(r), -2 * std::numbers::pi * turns);
        }
        if (row % 2 == 1) sum *= std::polar(1.0, constant + slope * static_cast<double>(x - kWide / 2));
        line.push_back(sum);
      }
    out.push_back(std::move(line));
  }
  return out;
}

numerics::LinearPhase found(double constant, double slope, bool widely) {
  numerics::Context context(numerics::Backend::cpu, test_resources());
  numerics::GhostSearch search(context.account(), 2, kRows, kWide);
  const auto lines = disc_lines(constant, slope);
  for (std::int64_t row = 0; row < kRows; ++row) search.add(row, row % 2 == 1, lines[static_cast<std::size_t>(row)]);
  const numerics::LinearPhase phase = search.find(context.threads(), widely);
  const auto entropies = search.entropies(context.threads(), {phase, {}});
  EXPECT_LE(entropies[0], entropies[1]);
  return phase;
}

TEST(GhostSearchTest, FindsAPhaseNearbyAndFarOff) {
  const auto near = found(0.12, -0.013, false), far = found(-0.9, 0.21, true);
  EXPECT_NEAR(near.constant, 0.12, 0.01);
  EXPECT_NEAR(near.slope, -0.013, 0.001);
  EXPECT_NEAR(far.constant, -0.9, 0.01);
  EXPECT_NEAR(far.slope, 0.21, 0.001);
}

TEST(GhostSearchTest, EntropyIsThatOfTheMagnitudes) {
  numerics::Context context(numerics::Backend::cpu, test_resources());
  numerics::GhostSearch search(context.account(), 1, 2, 2);
  EXPECT_EQ(search.find(context.threads(), true).slope, 0);      // no lines
  search.add(0, false, {cdouble(3), cdouble(0, 4)});             // an image of rows (3, 4i), twice
  EXPECT_EQ(search.find(context.threads(), false).constant, 0);  // none is reversed
  search.add(1, true, {cdouble(0), cdouble(0)});
  search.find(context.threads(), false);
  const double s = std::sqrt(2 * (9 + 16.0));
  EXPECT_NEAR(search.entropies(context.threads(), {{}}).front(),
              -2 * (3 / s * std::log(3 / s) + 4 / s * std::log(4 / s)), 1e-12);
}

}  // namespace
}  // namespace echotrain::testing
