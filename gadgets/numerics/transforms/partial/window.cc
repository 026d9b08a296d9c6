#include "gadgets/numerics/transforms/partial/window.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/transforms/partial/partial_ops.h"

namespace echotrain::numerics {

namespace {

void check_window(bool good, double half_width, WindowKind kind, double parameter) {
  good = good && half_width > 0 && std::isfinite(half_width) &&
         (kind != WindowKind::tukey || (parameter >= 0 && parameter <= 1)) &&
         (kind != WindowKind::gaussian || (parameter > 0 && std::isfinite(parameter)));
  if (!good) throw std::invalid_argument(fmt::format("window: half width {}, parameter {}", half_width, parameter));
}

}  // namespace

std::vector<float> window(std::int64_t n, std::int64_t center, double half_width, WindowKind kind, double parameter) {
  check_window(n >= 1 && center >= 0 && center < n, half_width, kind, parameter);
  const auto value = [&](double k) {
    if (kind == WindowKind::gaussian) return std::exp(-k * k / (2 * parameter * parameter * half_width * half_width));
    if (k > half_width) return 0.0;
    const double flat = kind == WindowKind::tukey ? (1 - parameter) * half_width : 0;
    return k <= flat ? 1.0 : 0.5 + 0.5 * std::cos(std::numbers::pi * (k - flat) / (half_width - flat));
  };
  std::vector<float> factors;
  for (std::int64_t i = 0; i < n; ++i)
    factors.push_back(static_cast<float>(value(std::abs(static_cast<double>(i - center)))));
  return factors;
}

void multiply_axes(Context& context, DeviceView<cfloat> kspace, const std::array<std::vector<float>, 3>& factors) {
  const Shape& shape = kspace.shape();
  if (shape.rank() != 4) throw std::invalid_argument("multiply_axes: expected [coil, z, y, x], got " + shape.text());
  std::vector<float> all;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t n = shape[a + 1];
    if (!factors[a].empty() && static_cast<std::int64_t>(factors[a].size()) != n)
      throw std::invalid_argument(fmt::format("multiply_axes: {} factors for {}", factors[a].size(), shape.text()));
    all.insert(all.end(), factors[a].begin(), factors[a].end());
    if (factors[a].empty()) all.insert(all.end(), static_cast<std::size_t>(n), 1.0f);
  }
  if (kspace.size() == 0) return;
  const Array<float> there = context.upload<float>({all.data(), {static_cast<std::int64_t>(all.size())}});
  multiply_axes(context, AxisFactors{last_axes(shape, 3), there.data()}, shape[0], kspace.data());
}

void multiply_radius(Context& context, DeviceView<cfloat> kspace, const std::array<double, 3>& reach, double half_width,
                     WindowKind kind, double parameter) {
  const Shape& shape = kspace.shape();
  if (shape.rank() != 4) throw std::invalid_argument("multiply_radius: expected [coil, z, y, x], got " + shape.text());
  check_window(reach[0] >= 0 && reach[1] >= 0 && reach[2] >= 0, half_width, kind, parameter);
  std::array<float, 3> per{};
  for (std::size_t a = 0; a < 3; ++a) per[a] = reach[a] > 0 ? static_cast<float>(1 / reach[a]) : 0.0f;
  const double flat = kind == WindowKind::tukey ? (1 - parameter) * half_width : 0;
  const double sigma = kind == WindowKind::gaussian ? parameter * half_width : 0;
  multiply_radius(context, last_axes(shape, 3), per, static_cast<float>(flat), static_cast<float>(half_width),
                  static_cast<float>(sigma), shape[0], kspace.data());
}

}  // namespace echotrain::numerics
