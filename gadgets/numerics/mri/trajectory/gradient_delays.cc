#include "gadgets/numerics/mri/trajectory/gradient_delays.h"

#include <algorithm>
#include <cmath>

namespace echotrain::numerics {
namespace {

/// Values [sample] of a component, shifted to `ahead` samples later.
std::vector<double> moved(const std::vector<double>& values, double ahead) {
  const auto n = static_cast<std::int64_t>(values.size());
  std::vector<double> out(values.size());
  const auto value = [&](std::int64_t i) {
    if (i < 0) return values[0] + static_cast<double>(i) * (values[1] - values[0]);
    if (i < n) return values[static_cast<std::size_t>(i)];
    const std::size_t last = values.size() - 1;
    return values[last] + static_cast<double>(i - n + 1) * (values[last] - values[last - 1]);
  };
  for (std::int64_t s = 0; s < n; ++s) {
    const double at = static_cast<double>(s) + ahead;
    const auto base = static_cast<std::int64_t>(std::floor(at));
    const double u = at - static_cast<double>(base);
    out[static_cast<std::size_t>(s)] =
        -u * (u - 1) * (u - 2) / 6 * value(base - 1) + (u + 1) * (u - 1) * (u - 2) / 2 * value(base) -
        (u + 1) * u * (u - 2) / 2 * value(base + 1) + (u + 1) * u * (u - 1) / 6 * value(base + 2);
  }
  return out;
}

}  // namespace

double GradientDelays::largest() const { return std::max({std::abs(x), std::abs(y), std::abs(xy)}); }

GradientDelays GradientDelays::rounded() const {
  const auto round = [](double v) { return std::round(v * 1000) / 1000 + 0.0; };
  return {round(x), round(y), round(xy)};
}

void delay_positions(const GradientDelays& delays, HostView<double> positions) {
  const std::int64_t samples = positions.shape()[0], dims = positions.shape()[1];
  if (samples < 2) return;
  // The axes of S, at the angle a to x and y.
  const double a = 0.5 * std::atan2(2 * delays.xy, delays.x - delays.y), c = std::cos(a), s = std::sin(a);
  const double first = delays.x * c * c + delays.y * s * s + 2 * delays.xy * s * c;
  const double second = delays.x + delays.y - first;
  std::vector<double> along(static_cast<std::size_t>(samples)), across(along.size());
  for (std::int64_t i = 0; i < samples; ++i) {
    const double x = positions[i * dims], y = positions[i * dims + 1];
    along[static_cast<std::size_t>(i)] = c * x + s * y;
    across[static_cast<std::size_t>(i)] = c * y - s * x;
  }
  along = moved(along, first);
  across = moved(across, second);
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto at = static_cast<std::size_t>(i);
    positions[i * dims] = c * along[at] - s * across[at];
    positions[i * dims + 1] = s * along[at] + c * across[at];
  }
}

std::optional<std::array<double, 3>> solve3(const std::array<std::array<double, 3>, 3>& a,
                                            const std::array<double, 3>& b, double least) {
  // Eigenvalues by Jacobi's rotations, which tell how well the equations are posed.
  std::array<std::array<double, 3>, 3> d = a, v{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  for (int sweep = 0; sweep < 30; ++sweep)
    for (std::size_t p = 0; p < 2; ++p)
      for (std::size_t q = p + 1; q < 3; ++q) {
        if (d[p][q] == 0) continue;
        const double angle = 0.5 * std::atan2(2 * d[p][q], d[q][q] - d[p][p]), c = std::cos(angle), s = std::sin(angle);
        for (std::size_t k = 0; k < 3; ++k) {
          const double kp = d[k][p], kq = d[k][q];
          d[k][p] = c * kp - s * kq;
          d[k][q] = s * kp + c * kq;
        }
        for (std::size_t k = 0; k < 3; ++k) {
          const double pk = d[p][k], qk = d[q][k];
          d[p][k] = c * pk - s * qk;
          d[q][k] = s * pk + c * qk;
          const double vp = v[k][p], vq = v[k][q];
          v[k][p] = c * vp - s * vq;
          v[k][q] = s * vp + c * vq;
        }
      }
  const auto [low, high] = std::minmax({d[0][0], d[1][1], d[2][2]});
  if (!(high > 0) || !(low > least * high)) return std::nullopt;
  std::array<double, 3> out{};
  for (std::size_t e = 0; e < 3; ++e) {
    double part = 0;
    for (std::size_t k = 0; k < 3; ++k) part += v[k][e] * b[k];
    for (std::size_t k = 0; k < 3; ++k) out[k] += v[k][e] * part / d[e][e];
  }
  return out;
}

}  // namespace echotrain::numerics
