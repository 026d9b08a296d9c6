// The gridding window's approximations against the window itself, in float64.
#include "gadgets/numerics/transforms/nufft/kaiser_bessel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/nufft_problem.h"

namespace echotrain::numerics {
namespace {

constexpr double kRatios[] = {1.25, 1.5, 2, 8};

TEST(KaiserBessel, ThePolynomialIsWithinItsErrorOfTheWindow) {
  constexpr double kError = 2e-8;
  constexpr int kPositions = 1000;
  for (int width = 2; width <= FootprintWeights::kWidest; ++width)
    for (const double ratio : kRatios) {
      const KaiserBessel window(width, ratio);
      const auto polynomial = window.polynomial(kError);
      // CUDA's kernels hold 16 coefficients.
      EXPECT_LE(polynomial.size(), 16u) << "width " << width << " ratio " << ratio;
      double worst = 0, fp32 = 0;
      for (int i = 0; i < kPositions; ++i) {
        const double u = width * (static_cast<double>(i) / kPositions - 0.5), z = 2 * u / width, x = 1 - 2 * z * z;
        double sum = 0;
        float single = 0;
        for (auto c = polynomial.rbegin(); c != polynomial.rend(); ++c) {
          sum = sum * x + *c;
          single = single * static_cast<float>(x) + static_cast<float>(*c);
        }
        worst = std::max(worst, std::abs(sum - window.value(u)));
        fp32 = std::max(fp32, std::abs(static_cast<double>(single) - window.value(u)));
      }
      // Checked between the points that the fit itself looked at, where it may be a little worse.
      EXPECT_LT(worst, 1.5 * kError) << "width " << width << " ratio " << ratio;
      // Horner's rule for positive coefficients whose sum is 1: each of up to 15 steps rounds by 6e-8 of what is there.
      EXPECT_LT(fp32, 5e-7) << "width " << width << " ratio " << ratio;
    }
}

TEST(KaiserBessel, ACoarserPolynomialIsShorter) {
  const KaiserBessel window(6, 1.5);
  EXPECT_LT(window.polynomial(1e-4).size(), window.polynomial(1e-8).size());
}

// Judged by the sum of aliases itself. The formula is a fit: its errors are within 0.47 % of the least ones found. With
// the constant 0.8 of Beatty et al. they are up to 30 % larger.
TEST(KaiserBessel, TheShapeIsTheBest) {
  constexpr std::int64_t kVoxels = 128;
  for (int width = 2; width <= FootprintWeights::kWidest; ++width)
    for (const double ratio : {1.25, 1.5, 1.75, 2.0, 2.25}) {
      const auto grid = static_cast<std::int64_t>(ratio * kVoxels);
      const double beta = KaiserBessel(width, ratio).beta();
      const auto error = [&](double shape) { return std::sqrt(testing::alias_power(width, shape, kVoxels, grid)); };
      double best = error(beta);
      for (const double away : {0.005, 0.01, 0.02, 0.04})
        best = std::min({best, error((1 - away) * beta), error((1 + away) * beta)});
      EXPECT_LT(error(beta), 1.01 * best) << "width " << width << " ratio " << ratio;
    }
}

}  // namespace
}  // namespace echotrain::numerics
