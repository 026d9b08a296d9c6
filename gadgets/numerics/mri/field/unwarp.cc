#include "gadgets/numerics/mri/field/unwarp.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/field/unwarp_ops.h"

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

/// The weights of eight voxels, which sum to 1 for each place.
std::vector<float> interpolation_weights() {
  using J = UnwarpJob;
  constexpr double kHalf = J::kTaps / 2.0, kBeta = 6;
  std::vector<float> out;
  for (int step = 0; step <= J::kSteps; ++step) {
    double weights[J::kTaps], sum = 0;
    for (int i = 0; i < J::kTaps; ++i) {
      const double u = i - (kHalf - 1) - static_cast<double>(step) / J::kSteps, inside = 1 - (u / kHalf) * (u / kHalf);
      const double angle = std::numbers::pi * u, sinc = std::abs(u) < 1e-9 ? 1 : std::sin(angle) / angle;
      weights[i] = inside <= 0 ? 0 : sinc * bessel(kBeta * std::sqrt(inside)) / bessel(kBeta);
      sum += weights[i];
    }
    for (const double w : weights) out.push_back(static_cast<float>(w / sum));
  }
  return out;
}

/// The interpolation weights in the memory where a context computes.
struct Weights {
  Array<float> table;
};

}  // namespace

void unwarp(Context& context, DeviceView<const cfloat> distorted, DeviceView<const float> shift, bool modulate,
            DeviceView<cfloat> corrected) {
  const Shape &n = distorted.shape(), &s = shift.shape();
  if (n.rank() != 4 || !(n == corrected.shape()) || !(s == Shape{n[1], n[2], n[3]}))
    throw std::invalid_argument(
        fmt::format("unwarp: images {} and {} and shifts {} do not fit", n.text(), corrected.shape().text(), s.text()));
  if (n.size() == 0) return;
  auto& weights = context.cache<Weights>();
  if (!weights.table) {
    const std::vector<float> host = interpolation_weights();
    weights.table = context.upload<float>({host.data(), {static_cast<std::int64_t>(host.size())}});
  }
  const UnwarpJob job{.batch = n[0],
                      .planes = n[1],
                      .rows = n[2],
                      .columns = n[3],
                      .modulate = modulate,
                      .weights = weights.table.data()};
  ECHOTRAIN_DISPATCH(context, unwarp(context, job, distorted.data(), shift.data(), corrected.data()));
}

}  // namespace echotrain::numerics
