// Windows against their formulas, written out.
#include "gadgets/numerics/transforms/partial/window.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;

TEST(Windows, AreTheirFormulas) {
  for (const std::int64_t n : {16, 17})
    for (const double half_width : {3.5, 8.0, 20.0})
      for (std::int64_t i = 0; i < n; ++i) {
        const double k = std::abs(static_cast<double>(i - n / 2)), kw = half_width, pi = std::numbers::pi;
        const auto at = [&](WindowKind kind, double parameter) {
          return static_cast<double>(window(n, n / 2, kw, kind, parameter)[static_cast<std::size_t>(i)]);
        };
        EXPECT_NEAR(at(WindowKind::hann, 0), k <= kw ? std::pow(std::cos(pi * k / (2 * kw)), 2) : 0, 1e-7);
        EXPECT_NEAR(at(WindowKind::tukey, 0), k <= kw ? 1 : 0, 1e-7);
        EXPECT_NEAR(at(WindowKind::tukey, 1), at(WindowKind::hann, 0), 1e-7);
        EXPECT_NEAR(at(WindowKind::tukey, 0.25),
                    k > kw           ? 0
                    : k <= 0.75 * kw ? 1
                                     : std::pow(std::cos(pi * (k - 0.75 * kw) / (0.5 * kw)), 2),
                    1e-7);
        EXPECT_NEAR(at(WindowKind::gaussian, 0.5), std::exp(-2 * k * k / (kw * kw)), 1e-7);
      }
  for (const WindowKind kind : {WindowKind::hann, WindowKind::tukey, WindowKind::gaussian})
    EXPECT_EQ(window(9, 3, 2, kind, 0.5)[3], 1.0f);
}

TEST(Windows, RefuseNonsense) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(window(0, 0, 1, WindowKind::hann), std::invalid_argument);
  EXPECT_THROW(window(4, 4, 1, WindowKind::hann), std::invalid_argument);
  EXPECT_THROW(window(4, 2, 0, WindowKind::hann), std::invalid_argument);
  EXPECT_THROW(window(4, 2, nan, WindowKind::hann), std::invalid_argument);
  EXPECT_THROW(window(4, 2, 1, WindowKind::tukey, 1.1), std::invalid_argument);
  EXPECT_THROW(window(4, 2, 1, WindowKind::gaussian, 0), std::invalid_argument);
}

template <class B>
class MultiplyAxesTest : public testing::OnBackend<B> {};
TYPED_TEST_SUITE(MultiplyAxesTest, Backends, testing::BackendNames);

TYPED_TEST(MultiplyAxesTest, IsTheProductOfThree) {
  const Shape n{3, 4, 5, 6};
  const auto data = Random(1).normals(n.size());
  const std::array<std::vector<float>, 3> factors{{{1, 2, 3, 4}, {}, {6, 5, 4, 3, 2, 1}}};
  std::vector<cdouble> truth;
  for (std::int64_t i = 0; i < n.size(); ++i)
    truth.push_back(cdouble(data[static_cast<std::size_t>(i)]) *
                    static_cast<double>(factors[0][static_cast<std::size_t>(i / 30 % 4)]) *
                    static_cast<double>(factors[2][static_cast<std::size_t>(i % 6)]));
  auto there = this->upload(data, n);
  multiply_axes(this->context(), there.view(), factors);
  EXPECT_LT(testing::relative_error(this->download(there), truth, truth.size()), 1e-6);
  EXPECT_THROW(multiply_axes(this->context(), there.view(), {{{1, 2, 3}, {}, {}}}), std::invalid_argument);
  EXPECT_THROW(multiply_axes(this->context(), there.view().reshaped({12, 5, 6}), {}), std::invalid_argument);
}

TYPED_TEST(MultiplyAxesTest, OfTheRadiusIsItsFormula) {
  const Shape n{2, 3, 16, 21};
  const auto data = Random(2).normals(n.size());
  for (const WindowKind kind : {WindowKind::hann, WindowKind::tukey, WindowKind::gaussian})
    for (const double reach_z : {0.0, 1.5}) {
      std::vector<cdouble> truth;
      for (std::int64_t i = 0; i < n.size(); ++i) {
        const auto at = [](std::int64_t k, double reach) { return reach > 0 ? static_cast<double>(k) / reach : 0.0; };
        const double r = std::hypot(at(i / (16 * 21) % 3 - 1, reach_z), at(i / 21 % 16 - 8, 8), at(i % 21 - 10, 10));
        constexpr double kWidth = 0.9, kParameter = 0.4;
        double factor = r > kWidth ? 0 : 0.5 + 0.5 * std::cos(std::numbers::pi * r / kWidth);
        if (kind == WindowKind::tukey && r <= kWidth)
          factor =
              r <= 0.6 * kWidth ? 1 : std::pow(std::cos(std::numbers::pi / 2 * (r - 0.6 * kWidth) / (0.4 * kWidth)), 2);
        if (kind == WindowKind::gaussian) factor = std::exp(-0.5 * std::pow(r / (kParameter * kWidth), 2));
        truth.push_back(factor * cdouble(data[static_cast<std::size_t>(i)]));
      }
      auto kspace = this->upload(data, n);
      multiply_radius(this->context(), kspace.view(), {reach_z, 8, 10}, 0.9, kind, 0.4);
      EXPECT_LT(testing::relative_error(this->download(kspace), truth, truth.size()), 1e-5);
    }
  auto kspace = this->upload(data, n);
  EXPECT_THROW(multiply_radius(this->context(), kspace.view(), {-1, 8, 10}, 1, WindowKind::hann),
               std::invalid_argument);
  EXPECT_THROW(multiply_radius(this->context(), kspace.view(), {1, 8, 10}, 0, WindowKind::hann), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
