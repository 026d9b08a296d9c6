#include "gadgets/numerics/mri/intensity/spline_lattice.h"

#include <algorithm>
#include <utility>

namespace echotrain::numerics {
namespace {

/// The splines that each point of an axis meets: four weights, from coefficient `first` on.
struct AxisSplines {
  std::vector<std::int64_t> first;
  std::vector<std::array<double, 4>> weights;
  int taps = 4;  // 1 for an axis that is constant
};

AxisSplines axis_splines(std::int64_t points, std::int64_t spans, double from, double to) {
  AxisSplines out;
  for (std::int64_t i = 0; i < points; ++i) {
    if (spans == 0) {
      out.first.push_back(0);
      out.weights.push_back({1, 0, 0, 0});
      out.taps = 1;
      continue;
    }
    const double at = points > 1 ? from + (to - from) * static_cast<double>(i) / static_cast<double>(points - 1) : from;
    const double u = std::clamp(at, 0.0, 1.0) * static_cast<double>(spans);
    const std::int64_t span = std::min(static_cast<std::int64_t>(u), spans - 1);
    const double t = u - static_cast<double>(span), s = 1 - t;
    out.first.push_back(span);
    out.weights.push_back(
        {s * s * s / 6, (3 * t * t * t - 6 * t * t + 4) / 6, (3 * s * s * s - 6 * s * s + 4) / 6, t * t * t / 6});
  }
  return out;
}

double power_of(double value, int power) {
  return power == 3 ? value * value * value : power == 2 ? value * value : value;
}

/// Sums over the points of one axis: out[k] = sum_i weight_ik^power / norm_i in[i]; with `normed`, norm_i is the sum of
/// the point's squared weights, else 1. values: [before, points, behind].
void gather_axis(const AxisSplines& splines, std::int64_t coefficients, int power, bool normed, std::int64_t behind,
                 std::vector<double>& values, std::vector<double>& out) {
  const auto points = static_cast<std::int64_t>(splines.first.size());
  const std::int64_t before = static_cast<std::int64_t>(values.size()) / (points * behind);
  out.assign(static_cast<std::size_t>(before * coefficients * behind), 0.0);
  for (std::int64_t b = 0; b < before; ++b)
    for (std::int64_t i = 0; i < points; ++i) {
      const auto& weights = splines.weights[static_cast<std::size_t>(i)];
      double norm = 0;
      for (const double w : weights) norm += w * w;
      const double* const from = values.data() + (b * points + i) * behind;
      double* const to = out.data() + (b * coefficients + splines.first[static_cast<std::size_t>(i)]) * behind;
      for (int k = 0; k < splines.taps; ++k) {
        const double weight = power_of(weights[static_cast<std::size_t>(k)], power) / (normed ? norm : 1);
        for (std::int64_t x = 0; x < behind; ++x) to[k * behind + x] += weight * from[x];
      }
    }
  values.swap(out);
}

/// out[i] = sum_k weight_ik in[k]: the adjoint of the above. values: [before, coefficients, behind].
void spread_axis(const AxisSplines& splines, std::int64_t coefficients, std::int64_t behind,
                 std::vector<double>& values, std::vector<double>& out) {
  const auto points = static_cast<std::int64_t>(splines.first.size());
  const std::int64_t before = static_cast<std::int64_t>(values.size()) / (coefficients * behind);
  out.assign(static_cast<std::size_t>(before * points * behind), 0.0);
  for (std::int64_t b = 0; b < before; ++b)
    for (std::int64_t i = 0; i < points; ++i) {
      const double* const from =
          values.data() + (b * coefficients + splines.first[static_cast<std::size_t>(i)]) * behind;
      double* const to = out.data() + (b * points + i) * behind;
      for (int k = 0; k < splines.taps; ++k) {
        const double weight = splines.weights[static_cast<std::size_t>(i)][static_cast<std::size_t>(k)];
        for (std::int64_t x = 0; x < behind; ++x) to[x] += weight * from[k * behind + x];
      }
    }
  values.swap(out);
}

}  // namespace

SplineLattice::SplineLattice(const Extents& grid, std::vector<double> inside)
    : grid_(grid), inside_(std::move(inside)) {
  for (std::size_t a = 0; a < 3; ++a) spans_[a] = grid[a] > 1 ? 1 : 0;
  coefficients_.assign(static_cast<std::size_t>(volume(lattice())), 0.0);
  gather(2, false, squares_ = inside_);
}

Extents SplineLattice::lattice() const {
  Extents out{};
  for (std::size_t a = 0; a < 3; ++a) out[a] = spans_[a] == 0 ? 1 : spans_[a] + 3;
  return out;
}

/// Sums over all axes: where a grid is regular, a point's sum of squares is a product, and so are sums over points.
void SplineLattice::gather(int power, bool normed, std::vector<double>& values) {
  const Extents n = lattice();
  std::int64_t behind = grid_[1] * grid_[2];
  for (std::size_t a = 0; a < 3; ++a) {  // z first: rows of x stay together
    gather_axis(axis_splines(grid_[a], spans_[a], 0, 1), n[a], power, normed, behind, values, spare_);
    if (a < 2) behind /= grid_[a + 1];
  }
}

void SplineLattice::add_approximation(const std::vector<double>& values) {
  sums_ = values;
  gather(3, true, sums_);
  constexpr double kLeast = 1e-12;  // beside 1e-5 of a spline's tail a tenth of a span from its end, in each axis
  for (std::size_t i = 0; i < coefficients_.size(); ++i)
    if (squares_[i] > kLeast) coefficients_[i] += sums_[i] / squares_[i];
}

void SplineLattice::refine() {
  Extents n = lattice();
  for (std::size_t a = 0; a < 3; ++a) {
    if (spans_[a] == 0) continue;
    const std::int64_t fine = 2 * spans_[a] + 3;
    std::int64_t behind = 1;
    for (std::size_t b = a + 1; b < 3; ++b) behind *= n[b];
    const std::int64_t before = static_cast<std::int64_t>(coefficients_.size()) / (n[a] * behind);
    std::vector<double> out(static_cast<std::size_t>(before * fine * behind));
    for (std::int64_t b = 0; b < before; ++b)
      for (std::int64_t k = 0; k < fine; ++k) {
        const double* const c = coefficients_.data() + (b * n[a] + k / 2) * behind;
        double* const to = out.data() + (b * fine + k) * behind;
        for (std::int64_t x = 0; x < behind; ++x)
          to[x] = k % 2 == 0 ? (c[x] + c[x + behind]) / 2 : (c[x] + 6 * c[x + behind] + c[x + 2 * behind]) / 8;
      }
    coefficients_.swap(out);
    n[a] = fine;
    spans_[a] *= 2;
  }
  gather(2, false, squares_ = inside_);
}

void SplineLattice::evaluate(const Extents& on, const std::array<Place, 3>& at, std::vector<double>& to,
                             std::vector<double>& spare) const {
  to = coefficients_;
  const Extents n = lattice();
  std::int64_t behind = 1;
  for (std::size_t a = 3; a-- > 0;) {  // x first, while there are few rows
    const double last = static_cast<double>(std::max<std::int64_t>(1, grid_[a] - 1));
    spread_axis(axis_splines(on[a], spans_[a], at[a].first / last, at[a].last / last), n[a], behind, to, spare);
    behind *= on[a];
  }
}

void SplineLattice::evaluate(std::vector<double>& to) {
  std::array<Place, 3> whole{};
  for (std::size_t a = 0; a < 3; ++a) whole[a] = {0, static_cast<double>(grid_[a] - 1)};
  evaluate(grid_, whole, to, spare_);
}

}  // namespace echotrain::numerics
