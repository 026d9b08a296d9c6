#include "gadgets/numerics/mri/epi/navigator.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "gadgets/numerics/core/clones.h"

namespace echotrain::numerics {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

double at(std::size_t x, std::size_t n) { return static_cast<double>(x) - static_cast<double>(n / 2); }

bool differ(const Navigators& lines, std::size_t a, std::size_t b) { return lines.reversed[a] != lines.reversed[b]; }

/// Steps of weighted least squares for the rest of the phase.
void improve(const std::vector<cdouble>& products, LinearPhase& phase) {
  double w = 0, wx = 0, wxx = 0, wr = 0, wxr = 0;
  for (std::size_t x = 0; x < products.size(); ++x) {
    const double u = at(x, products.size()), weight = std::norm(products[x]);
    const double rest = std::arg(products[x] * std::polar(1.0, -(phase.constant + phase.slope * u)));
    w += weight;
    wx += weight * u;
    wxx += weight * u * u;
    wr += weight * rest;
    wxr += weight * u * rest;
  }
  const double determinant = w * wxx - wx * wx;
  if (!(determinant > 1e-12 * w * wxx)) return;
  phase.constant += (wxx * wr - wx * wxr) / determinant;
  phase.slope += (w * wxr - wx * wr) / determinant;
}

/// (re, im) += value * (row_re, row_im).
ECHOTRAIN_CLONES void add_row(const double* row_re, const double* row_im, cfloat value, std::int64_t n, double* re,
                              double* im) {
  const double a = value.real(), b = value.imag();
  for (std::int64_t x = 0; x < n; ++x) {
    re[x] += a * row_re[x] - b * row_im[x];
    im[x] += a * row_im[x] + b * row_re[x];
  }
}

}  // namespace

ProfileTransform::ProfileTransform(std::int64_t n) : n_(n) {
  std::vector<cdouble> roots;
  for (std::int64_t m = 0; m < n; ++m)
    roots.push_back(std::polar(1.0 / static_cast<double>(n), kTwoPi * static_cast<double>(m) / static_cast<double>(n)));
  for (std::int64_t k = -(n / 2); k < n - n / 2; ++k)
    for (std::int64_t x = -(n / 2); x < n - n / 2; ++x) {
      const cdouble root = roots[static_cast<std::size_t>((k * x % n + n) % n)];
      re_.push_back(root.real());
      im_.push_back(root.imag());
    }
}

std::vector<cdouble> ProfileTransform::operator()(HostView<const cfloat> line, bool turned) const {
  const std::int64_t coils = line.shape()[0];
  std::vector<cdouble> out;
  out.reserve(static_cast<std::size_t>(coils * n_));
  std::vector<double> re(static_cast<std::size_t>(n_)), im(static_cast<std::size_t>(n_));
  for (std::int64_t c = 0; c < coils; ++c) {
    std::fill(re.begin(), re.end(), 0);
    std::fill(im.begin(), im.end(), 0);
    for (std::int64_t k = 0; k < n_; ++k)
      add_row(re_.data() + k * n_, im_.data() + k * n_, line.data()[c * n_ + (turned ? n_ - 1 - k : k)], n_, re.data(),
              im.data());
    for (std::size_t x = 0; x < re.size(); ++x) out.emplace_back(re[x], im[x]);
  }
  return out;
}

double precession(const Navigators& lines) {
  cdouble sum = 0;
  for (std::size_t l = 2; l < lines.profiles.size(); ++l) {
    if (differ(lines, l, l - 2)) continue;
    for (std::size_t i = 0; i < lines.profiles[l].size(); ++i)
      sum += std::conj(lines.profiles[l - 2][i]) * lines.profiles[l][i];
  }
  return std::arg(sum) / 2;
}

std::vector<cdouble> odd_even_products(const Navigators& lines) {
  const std::size_t count = lines.profiles.size();
  std::vector<cdouble> out(static_cast<std::size_t>(lines.coils * lines.n));
  const cdouble later = std::polar(1.0, precession(lines));
  bool found = false;
  const auto add = [&](std::size_t l, std::size_t i, cdouble expected) {
    const cdouble product = std::conj(expected) * lines.profiles[l][i];
    out[i] += lines.reversed[l] ? product : std::conj(product);
  };
  for (std::size_t l = 1; l + 1 < count; ++l) {
    if (!differ(lines, l - 1, l) || !differ(lines, l, l + 1)) continue;
    found = true;
    for (std::size_t i = 0; i < out.size(); ++i)
      add(l, i, 0.5 * (lines.profiles[l - 1][i] * later + lines.profiles[l + 1][i] * std::conj(later)));
  }
  for (std::size_t l = 1; l < count && !found; ++l) {
    if (!differ(lines, l - 1, l)) continue;
    for (std::size_t i = 0; i < out.size(); ++i) add(l, i, lines.profiles[l - 1][i]);
    return out;
  }
  if (!found) out.clear();
  return out;
}

std::vector<cdouble> odd_even_products(const Navigators& lines, std::size_t line) {
  if (line == 0 || line + 1 >= lines.profiles.size() || !lines.reversed[line] || !differ(lines, line - 1, line) ||
      !differ(lines, line, line + 1))
    return {};
  const auto &before = lines.profiles[line - 1], &own = lines.profiles[line], &after = lines.profiles[line + 1];
  cdouble turned = 0;
  for (std::size_t i = 0; i < own.size(); ++i) turned += std::conj(before[i]) * after[i];
  // Half an angle has two values; the one next to the train's mean is taken, which serves the other lines, too.
  const double mean = precession(lines);
  const cdouble later = std::polar(1.0, mean + std::remainder(std::arg(turned) - 2 * mean, 2 * std::numbers::pi) / 2);
  std::vector<cdouble> out;
  for (std::size_t i = 0; i < own.size(); ++i)
    out.push_back(std::conj(0.5 * (before[i] * later + after[i] * std::conj(later))) * own[i]);
  return out;
}

bool looks_mirrored(const Navigators& lines) {
  const auto n = static_cast<std::size_t>(lines.n);
  std::vector<double> forward(n), reversed(n);
  for (std::size_t l = 0; l < lines.profiles.size(); ++l)
    for (std::size_t i = 0; i < lines.profiles[l].size(); ++i)
      (lines.reversed[l] ? reversed : forward)[i % n] += std::abs(lines.profiles[l][i]);
  double same = 0, mirrored = 0;
  for (std::size_t x = 0; x < n; ++x) {
    same += forward[x] * reversed[x];
    mirrored += forward[x] * reversed[(2 * (n / 2) + n - x) % n];
  }
  return mirrored > 1.02 * same;
}

LinearPhase linear_phase(const std::vector<cdouble>& products) {
  LinearPhase phase;
  cdouble neighbours = 0, sum = 0;
  for (std::size_t x = 1; x < products.size(); ++x) neighbours += std::conj(products[x - 1]) * products[x];
  phase.slope = std::arg(neighbours);
  for (std::size_t x = 0; x < products.size(); ++x)
    sum += products[x] * std::polar(1.0, -phase.slope * at(x, products.size()));
  phase.constant = std::arg(sum);
  improve(products, phase);
  improve(products, phase);
  return phase;
}

std::vector<double> pointwise_phase(const std::vector<cdouble>& products, const LinearPhase& line, double floor) {
  constexpr std::int64_t kReach = 2;
  const auto n = static_cast<std::int64_t>(products.size());
  std::vector<cdouble> rest(products.size());
  std::vector<double> linear(products.size()), out;
  double largest = 0;
  for (std::size_t x = 0; x < products.size(); ++x) {
    linear[x] = line.constant + line.slope * at(x, products.size());
    rest[x] = products[x] * std::polar(1.0, -linear[x]);
    largest = std::max(largest, std::abs(products[x]));
  }
  for (std::int64_t x = 0; x < n; ++x) {
    cdouble sum = 0;
    std::int64_t points = 0;
    for (std::int64_t near = std::max<std::int64_t>(0, x - kReach); near <= std::min(n - 1, x + kReach); ++near) {
      sum += rest[static_cast<std::size_t>(near)];
      ++points;
    }
    const double signal = std::abs(sum) / static_cast<double>(points), least = floor * largest;
    const double share = signal > 0 ? signal * signal / (signal * signal + least * least) : 0;
    out.push_back(linear[static_cast<std::size_t>(x)] + share * std::arg(sum));
  }
  return out;
}

double ghost_level(const std::vector<cdouble>& products, const std::vector<double>& phases) {
  constexpr double kMost = 10;  // bound of one point: where the phase is off by pi, all is ghost
  double ghost = 0, object = 0;
  for (std::size_t x = 0; x < products.size(); ++x) {
    const double rest = std::arg(products[x] * std::polar(1.0, -phases[x]));
    ghost += std::abs(products[x]) * std::min(std::abs(std::tan(rest / 2)), kMost);
    object += std::abs(products[x]);
  }
  return object > 0 ? ghost / object : 0;
}

}  // namespace echotrain::numerics
