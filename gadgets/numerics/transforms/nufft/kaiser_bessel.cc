#include "gadgets/numerics/transforms/nufft/kaiser_bessel.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "gadgets/numerics/core/clones.h"

namespace echotrain::numerics {
namespace {

constexpr double kPi = std::numbers::pi;

/// I0 by its power series. All terms are positive, so it is exact up to rounding; the betas used here take some 50
/// terms.
double bessel_i0(double x) {
  const double q = x * x / 4;
  double term = 1, sum = 1;
  for (int k = 1; term > 1e-18 * sum; ++k) {
    term *= q / (static_cast<double>(k) * k);
    sum += term;
  }
  return sum;
}

ECHOTRAIN_CLONES void horner(const double* coefficients, int terms, double t, float* to) {
  constexpr int kLanes = FootprintWeights::kWidest;
  double sum[kLanes];
  for (int j = 0; j < kLanes; ++j) sum[j] = coefficients[j];
  for (int k = 1; k < terms; ++k)
    for (int j = 0; j < kLanes; ++j) sum[j] = sum[j] * t + coefficients[k * kLanes + j];
  for (int j = 0; j < kLanes; ++j) to[j] = static_cast<float>(sum[j]);
}

}  // namespace

KaiserBessel::KaiserBessel(int width, double ratio)
    : width_(width),
      beta_(kPi * std::sqrt(std::max(
                      0.0, width * width / (ratio * ratio) * (ratio - 0.5) * (ratio - 0.5) - 0.7 + 0.55 / width))),
      at_zero_(bessel_i0(beta_)) {}

double KaiserBessel::value(double u) const {
  const double z = 2 * u / width_, inside = 1 - z * z;
  return inside < 0 ? 0 : bessel_i0(beta_ * std::sqrt(inside)) / at_zero_;
}

double KaiserBessel::transform(double f) const {
  const double x = kPi * width_ * f, square = beta_ * beta_ - x * x;
  double ratio;  // sinh(a) / a, continued to imaginary a
  if (std::abs(square) < 1e-6)
    ratio = 1 + square / 6;
  else if (square > 0)
    ratio = std::sinh(std::sqrt(square)) / std::sqrt(square);
  else
    ratio = std::sin(std::sqrt(-square)) / std::sqrt(-square);
  return width_ * ratio / at_zero_;
}

std::vector<double> KaiserBessel::polynomial(double error) const {
  constexpr int kMostTerms = 24, kChecked = 400;
  const auto at = [this](double x) { return bessel_i0(beta_ * std::sqrt((1 + x) / 2)) / at_zero_; };
  for (int terms = 3;; ++terms) {
    Eigen::MatrixXd powers(terms, terms);
    Eigen::VectorXd values(terms);
    for (int i = 0; i < terms; ++i) {  // Chebyshev points
      const double x = std::cos(kPi * (i + 0.5) / terms);
      for (int k = 0; k < terms; ++k) powers(i, k) = std::pow(x, k);
      values(i) = at(x);
    }
    const Eigen::VectorXd fit = powers.partialPivLu().solve(values);
    double worst = 0;
    for (int i = 0; i <= kChecked; ++i) {
      const double x = 2.0 * i / kChecked - 1;
      double sum = 0;
      for (int k = terms - 1; k >= 0; --k) sum = sum * x + fit(k);
      worst = std::max(worst, std::abs(sum - at(x)));
    }
    if (worst <= error || terms == kMostTerms) return {fit.data(), fit.data() + terms};
  }
}

FootprintWeights::FootprintWeights(const KaiserBessel& window) {
  // I0 is an entire function of the square of its argument, so the window is smooth up to its edges and interpolation
  // at Chebyshev points converges geometrically.
  const int width = window.width();
  Eigen::MatrixXd powers(kTerms, kTerms), values(kTerms, width);
  for (int i = 0; i < kTerms; ++i) {
    const double t = std::cos(kPi * (i + 0.5) / kTerms);
    for (int k = 0; k < kTerms; ++k) powers(i, k) = std::pow(t, kTerms - 1 - k);
    for (int j = 0; j < width; ++j) values(i, j) = window.value(j + (t + 1) / 2 - width / 2.0);
  }
  const Eigen::MatrixXd fit = powers.partialPivLu().solve(values);
  for (int k = 0; k < kTerms; ++k)
    for (int j = 0; j < width; ++j) coefficients_[k][j] = fit(k, j);
}

void FootprintWeights::evaluate(double shift, float* weights) const {
  horner(&coefficients_[0][0], kTerms, 2 * shift - 1, weights);
}

}  // namespace echotrain::numerics
