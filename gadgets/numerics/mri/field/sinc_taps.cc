#include "gadgets/numerics/mri/field/sinc_taps.h"

#include <cmath>
#include <numbers>
#include <vector>

namespace echotrain::numerics {
namespace {

/// Modified Bessel function of order 0, by its series.
double bessel(double x) {
  double sum = 1, term = 1;
  for (int k = 1; k < 60; ++k) {
    term *= (x / (2 * k)) * (x / (2 * k));
    sum += term;
  }
  return sum;
}

std::vector<float> sinc_weights() {
  constexpr int kTaps = SincTaps::kTaps;
  constexpr double kHalf = kTaps / 2.0, kBeta = 6;
  std::vector<float> out;
  for (int step = 0; step <= SincTaps::kSteps; ++step) {
    double weights[kTaps], sum = 0;
    for (int i = 0; i < kTaps; ++i) {
      const double u = i - (kHalf - 1) - static_cast<double>(step) / SincTaps::kSteps,
                   inside = 1 - (u / kHalf) * (u / kHalf);
      const double angle = std::numbers::pi * u, sinc = std::abs(u) < 1e-9 ? 1 : std::sin(angle) / angle;
      weights[i] = inside <= 0 ? 0 : sinc * bessel(kBeta * std::sqrt(inside)) / bessel(kBeta);
      sum += weights[i];
    }
    for (const double w : weights) out.push_back(static_cast<float>(w / sum));
  }
  return out;
}

/// The table in the memory where a context computes.
struct SincTable {
  Array<float> weights;
};

}  // namespace

const float* sinc_table(Context& context) {
  auto& table = context.cache<SincTable>();
  if (!table.weights) {
    const std::vector<float> host = sinc_weights();
    table.weights = context.upload<float>({host.data(), {static_cast<std::int64_t>(host.size())}});
  }
  return table.weights.data();
}

}  // namespace echotrain::numerics
