// The texts of gradient coefficients, and what is said of those that cannot be read.
#include "gadgets/field/gradient_coefficients.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kGrad =
    "#*[ Script ****\n# Name: A( 3, 1) is a comment\n#*] END: */\n"
    "some coil, Gx,y,z = 80/80 mT/m\r\n"
    "win_low = 0, win_high = 0, win_algo = 0, win_dummy = 2;\n"
    " 0.25 m = R0, lnorm = 4? A(1,0) = B(1,1) = A(1,1) = 0;\n0 = CoSyMode,\n\n"
    "NO. TYPE            SPECTRUM                     AXIS\n\n"
    "  1  A( 3, 0)           -0.0100000                   z\n"
    "101  A(3,1)  0.02 x\n"
    "102 A( 5, 3)  -4e-2  x\n"
    "201 B( 3, 1)            0.03                  y\n";

/// A term as Siemens normalizes it, of place r at angles theta and phi: sqrt((2n+1)(n-m)!/(2(n+m)!)) P_n^m.
double siemens(int n, int m, double r, double theta, double phi, bool sine) {
  const double factor = m == 0 ? 1 : std::sqrt((2 * n + 1) * std::tgamma(n - m + 1) / (2 * std::tgamma(n + m + 1)));
  return factor * std::pow(r / 250, n) *
         std::assoc_legendre(static_cast<unsigned>(n), static_cast<unsigned>(m), std::cos(theta)) *
         (sine ? std::sin(m * phi) : std::cos(m * phi));
}

std::array<double, 3> at(const std::string& text, double radius_mm = 0) {
  constexpr double kR = 180, kTheta = 0.7, kPhi = -1.9;
  const auto values =
      numerics::GradientField(read_gradient_coefficients(text, radius_mm))
          .at({kR * std::sin(kTheta) * std::cos(kPhi), kR * std::sin(kTheta) * std::sin(kPhi), kR * std::cos(kTheta)});
  return {values[0], values[1], values[2]};
}

TEST(GradientCoefficients, ThreeTextsOfOneField) {
  const auto term = [](int n, int m, bool sine) { return 250 * siemens(n, m, 180, 0.7, -1.9, sine); };
  const std::array<double, 3> truth{0.02 * term(3, 1, false) - 0.04 * term(5, 3, false), 0.03 * term(3, 1, true),
                                    -0.01 * term(3, 0, false)};
  const std::string coef =
      "# a coil\nalpha_x 3 1 0.02;\n alpha_x\t5 3 -0.04 ;\nbeta_y 3 1 0.03;\nalpha_z 3 0 -0.01;\nalpha_z 5 0 0.0;\n";
  // The coefficient of P_5^3 without a factor has Siemens' factor, which is sqrt(11 2! / (2 8!)).
  const std::string legendre = fmt::format(
      "echotrain_gradients 1  # a comment\nnormalization legendre\nradius_mm 250\nx 3 1 {0} 0\nx 5 3 {1} 0\ny 3 1 0 "
      "{2}\nz 3 0 -0.01 0\n",
      0.02 * std::sqrt(7 * 2 / (2 * 24.0)), -0.04 * std::sqrt(11 * 2 / (2 * 40320.0)),
      0.03 * std::sqrt(7 * 2 / (2 * 24.0)));
  const std::string schmidt = fmt::format(
      "echotrain_gradients 1\nnormalization schmidt\nradius_mm 250\nx 3 1 {0} 0\nx 5 3 {1} 0\ny 3 1 0 {2}\nz 3 0 -0.01 "
      "0\n",
      0.02 * std::sqrt(7.0) / 2, -0.04 * std::sqrt(11.0) / 2, 0.03 * std::sqrt(7.0) / 2);
  const std::string plain =
      "echotrain_gradients 1\nradius_mm 250\nx 3 1 0.02 0\nx 5 3 -0.04 0\ny 3 1 0 0.03\nz 3 0 -0.01 0";
  for (const std::string& text : {std::string(kGrad), legendre, schmidt, plain})
    for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(at(text)[c], truth[c], 1e-10 * 250) << text;
  for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(at(coef, 250)[c], truth[c], 1e-10 * 250);
}

std::string error_of(const std::string& text, double radius_mm = 0) {
  return client_error([&] { read_gradient_coefficients(text, radius_mm); });
}

TEST(GradientCoefficients, ErrorsTellTheLineAndWhatToWrite) {
  const std::string grad = kGrad;
  const auto with = [&](const std::string& line) { return error_of(grad + line + "\n"); };
  EXPECT_THAT(with("301 A( 3, 2) 0.0l z"), HasSubstr("line 15 of the coefficients: the coefficient is no number"));
  EXPECT_THAT(with("301 A( 3, 2) 0.01"), HasSubstr("line 15 of the coefficients: write NUMBER A( n, m)"));
  EXPECT_THAT(with("301 A( 3, 4) 0.01 z"), HasSubstr("0 <= m <= n <= 24"));
  EXPECT_THAT(with("301 A( 25, 4) 0.01 z"), HasSubstr("0 <= m <= n <= 24"));
  EXPECT_THAT(with("301 A( 3, 2) 0.01 w"), HasSubstr("the coil is x, y or z"));
  EXPECT_THAT(with("301 A( 3, 2) inf z"), HasSubstr("no number up to 1e+06"));
  EXPECT_THAT(with("301 A( 3, 0) 0.01 z"), HasSubstr("coil z, n 3, m 0 is given a second time"));
  EXPECT_THAT(with("0.0 m = R0"), HasSubstr("line 15 of the coefficients: the radius"));
  EXPECT_THAT(with("0.25 m = R0, lnorm = 3?"), HasSubstr("lnorm"));
  EXPECT_THAT(error_of("alpha_x 3 1\n", 250), HasSubstr("line 1 of the coefficients: write alpha_x n m coefficient"));
  EXPECT_THAT(error_of("alpha_x 3 1 0.01;\n"), HasSubstr("give radius_mm in the pipeline"));
  EXPECT_THAT(error_of(""), HasSubstr("holds no coefficients"));
  EXPECT_THAT(error_of("a letter\nto somebody\n", 250), HasSubstr("begins with \"echotrain_gradients 1\""));
  const std::string ours = "echotrain_gradients 1\nradius_mm 250\n\n";
  EXPECT_THAT(error_of("echotrain_gradients 2\n"), HasSubstr("line 1 of the coefficients: this version"));
  EXPECT_THAT(error_of(ours + "x 3 1 0.01\n"), HasSubstr("line 4 of the coefficients: write \"radius_mm 250\""));
  EXPECT_THAT(error_of(ours + "normalization ge\n"), HasSubstr("siemens, schmidt or legendre"));
  EXPECT_THAT(error_of(ours + "radius_mm far\n"), HasSubstr("line 4 of the coefficients: the radius"));
  // A site's coefficients are no client's business.
  EXPECT_THAT(with("301 A( 3, 2) 0.0secret z"), Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace echotrain::testing
