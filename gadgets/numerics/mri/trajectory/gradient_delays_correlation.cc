#include <algorithm>
#include <cmath>
#include <numbers>

#include "gadgets/numerics/mri/trajectory/gradient_delays.h"
#include "gadgets/numerics/mri/trajectory/small_fft.h"

namespace echotrain::numerics {
namespace {

using std::numbers::pi;

constexpr double kWidestGap = 40 * pi / 180;  // widest angle between the spokes to either side of the opposite
                                              // direction
constexpr int kMostSteps = 8;
constexpr double kGoodEnough = 2e-4, kLargestScatter = 0.5;
// The bound is relative: magnitudes of noise differ from one another by 0.6 of their size, as they have a mean.
constexpr double kLargestDifference = 0.4;
constexpr double kLeastEigenvalue = 1e-3;

/// Weights by which values at `nodes`, ascending, give one at `at`: a cubic through the four around it, or a line
/// between two where there are not four or where two of them nearly coincide.
struct Interpolation {
  std::size_t first = 0, count = 0;
  std::array<double, 4> weights{};
};
Interpolation interpolate(const std::vector<double>& nodes, double at) {
  Interpolation out;
  const auto above = static_cast<std::size_t>(std::upper_bound(nodes.begin(), nodes.end(), at) - nodes.begin());
  const std::size_t left = std::clamp<std::size_t>(above, 1, nodes.size() - 1) - 1;
  if (nodes.size() >= 4) {
    out.first = std::clamp<std::size_t>(left, 1, nodes.size() - 3) - 1;
    double narrowest = pi, widest = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const double gap = nodes[out.first + k + 1] - nodes[out.first + k];
      narrowest = std::min(narrowest, gap);
      widest = std::max(widest, gap);
    }
    if (narrowest > 0.2 * widest) {
      out.count = 4;
      for (std::size_t k = 0; k < 4; ++k) {
        out.weights[k] = 1;
        for (std::size_t l = 0; l < 4; ++l)
          if (l != k) out.weights[k] *= (at - nodes[out.first + l]) / (nodes[out.first + k] - nodes[out.first + l]);
      }
      return out;
    }
  }
  out.first = left;
  out.count = 2;
  const double gap = nodes[left + 1] - nodes[left];
  const double share = gap > 0 ? std::clamp((at - nodes[left]) / gap, 0.0, 1.0) : 0.5;
  out.weights = {1 - share, share};
  return out;
}

/// The spokes that oppose one, by the angle from its opposite direction.
struct Opposing {
  std::vector<double> angles;
  std::vector<std::int64_t> spokes;
};

Plane direction(double angle) { return {std::cos(angle), std::sin(angle)}; }

class CrossCorrelation {
 public:
  explicit CrossCorrelation(const Spokes& spokes)
      : spokes_(spokes),
        values_(spokes),
        fft_(SmallFft::length_for(static_cast<std::size_t>(spokes.samples))),
        reach_(static_cast<double>(spokes.samples) / 4) {
    for (const Plane& n : spokes.directions) angles_.push_back(std::atan2(n[1], n[0]));
  }

  /// The number of steps by which spoke i lies beside the place that the opposing ones predict, and the row of the
  /// equation. Empty if there are none.
  struct Row {
    std::array<double, 3> of{};
    double shift = 0;
    double difference = 0, power = 0;  // difference of its magnitudes from the predicted ones, and their own power
  };
  std::optional<Row> row(std::int64_t i, const GradientDelays& delays) {
    const Opposing opposing = opposing_of(i);
    const auto above = std::lower_bound(opposing.angles.begin(), opposing.angles.end(), 0.0);
    if (above == opposing.angles.begin() || above == opposing.angles.end()) {
      if (above == opposing.angles.end() || *above > 0 || opposing.angles.size() < 2) return std::nullopt;
    } else if (*above - *(above - 1) > kWidestGap) {
      return std::nullopt;
    }
    Row out;
    const Plane& n = spokes_.directions[static_cast<std::size_t>(i)];
    add(out.of, n, 1);
    const Interpolation opposite = interpolate(opposing.angles, 0);
    for (std::size_t k = 0; k < opposite.count; ++k)
      add(out.of, spokes_.directions[static_cast<std::size_t>(opposing.spokes[opposite.first + k])],
          opposite.weights[k]);
    out.shift = shift(i, opposing, delays, out);
    return out;
  }

 private:
  static void add(std::array<double, 3>& row, const Plane& n, double weight) {
    row[0] += weight * n[0] * n[0];
    row[1] += weight * n[1] * n[1];
    row[2] += weight * 2 * n[0] * n[1];
  }

  Opposing opposing_of(std::int64_t i) const {
    std::vector<std::pair<double, std::int64_t>> found;
    for (std::int64_t j = 0; j < spokes_.count(); ++j) {
      const double away =
          std::remainder(angles_[static_cast<std::size_t>(j)] - angles_[static_cast<std::size_t>(i)] - pi, 2 * pi);
      if (std::abs(away) < pi / 2 - 1e-6) found.emplace_back(std::abs(away) < 1e-9 ? 0.0 : away, j);
    }
    std::sort(found.begin(), found.end());
    Opposing out;
    for (const auto& [angle, j] : found) {
      if (!out.angles.empty() && angle - out.angles.back() < 1e-9) continue;  // the same spoke of a later frame
      out.angles.push_back(angle);
      out.spokes.push_back(j);
    }
    return out;
  }

  /// The angle from direction `opposite` and the place of the line, among those of that half circle, that passes `q`.
  std::pair<double, double> line_through(const Plane& q, double opposite, const GradientDelays& delays) const {
    double angle = 0;
    for (int k = 0; k < 6; ++k) {
      const Plane n = direction(opposite + angle), moved = delays.shift(n);
      const double across = n[0] * moved[1] - n[1] * moved[0];  // distance of the line from the centre
      const double x = q[0] + across * n[1], y = q[1] - across * n[0];
      if (x == 0 && y == 0) break;
      const double to = std::atan2(y, x) - opposite;
      angle = to - pi * std::floor(to / pi + 0.5);  // a line has two ends
    }
    const Plane n = direction(opposite + angle), moved = delays.shift(n);
    return {angle, (q[0] - moved[0]) * n[0] + (q[1] - moved[1]) * n[1]};
  }

  double shift(std::int64_t i, const Opposing& opposing, const GradientDelays& delays, Row& row) {
    const auto channels = static_cast<std::size_t>(spokes_.channels);
    measured_.assign(channels, std::vector<SmallFft::Value>(fft_.size()));
    opposite_ = measured_;
    const Plane& n = spokes_.directions[static_cast<std::size_t>(i)];
    const Plane beside = delays.shift(n);
    for (std::int64_t s = 0; s < spokes_.samples; ++s) {
      const double r = spokes_.first[static_cast<std::size_t>(i)] + static_cast<double>(s);
      if (std::abs(r) >= reach_) continue;
      const double cosine = std::cos(pi / 2 * r / reach_), window = cosine * cosine;
      const auto [angle, place] =
          line_through({r * n[0] + beside[0], r * n[1] + beside[1]}, angles_[static_cast<std::size_t>(i)] + pi, delays);
      const Interpolation by_angle = interpolate(opposing.angles, angle);
      const auto at = static_cast<std::size_t>(s);
      for (std::size_t k = 0; k < by_angle.count; ++k) {
        values_.at(opposing.spokes[by_angle.first + k], place, there_);
        for (std::size_t c = 0; c < channels; ++c)
          opposite_[c][at] += window * by_angle.weights[k] * std::abs(there_[c]);
      }
      const cfloat* here = spokes_.data.data() + (i * spokes_.samples + s) * spokes_.channels;
      for (std::size_t c = 0; c < channels; ++c) measured_[c][at] = window * std::abs(cdouble(here[c]));
    }
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t s = 0; s < fft_.size(); ++s) {
        row.difference += std::norm(measured_[c][s] - opposite_[c][s]);
        row.power += std::norm(measured_[c][s]);
      }
    std::vector<SmallFft::Value> products(fft_.size());
    for (std::size_t c = 0; c < channels; ++c) {
      fft_(measured_[c]);
      fft_(opposite_[c]);
      for (std::size_t m = 0; m < products.size(); ++m) products[m] += measured_[c][m] * std::conj(opposite_[c][m]);
    }
    // The slope of the phase by the products of neighbours (Ahn & Cho, IEEE TMI 6, 1987), from -1/2 to 1/2 cycles/step.
    SmallFft::Value turn{};
    for (std::size_t m = 0; m + 1 < products.size(); ++m) {
      const std::size_t at = (m + products.size() / 2) % products.size();
      turn += products[(at + 1) % products.size()] * std::conj(products[at]);
    }
    return std::arg(turn) / (2 * pi) * static_cast<double>(fft_.size());
  }

  const Spokes& spokes_;
  SpokeValues values_;
  SmallFft fft_;
  const double reach_;  // half width of the window about k = 0: half of the spoke
  std::vector<double> angles_;
  std::vector<std::vector<SmallFft::Value>> measured_, opposite_;  // [channel, sample]
  std::vector<cdouble> there_;
};

}  // namespace

DelayEstimate cross_correlation(const Spokes& spokes, const std::function<void()>& between) {
  DelayEstimate out;
  GradientDelays delays;
  CrossCorrelation correlation(spokes);
  double moved = kLargestDelay;
  bool differs = true;
  for (int n = 0; n < kMostSteps && moved > kGoodEnough && delays.largest() <= kLargestDelay; ++n) {
    std::array<std::array<double, 3>, 3> normal{};
    std::array<double, 3> right{};
    std::vector<CrossCorrelation::Row> rows;
    for (std::int64_t i = 0; i < spokes.count(); ++i) {
      if (between) between();
      const auto row = correlation.row(i, delays);
      if (!row) continue;
      rows.push_back(*row);
      for (std::size_t p = 0; p < 3; ++p) {
        for (std::size_t q = 0; q < 3; ++q) normal[p][q] += row->of[p] * row->of[q];
        right[p] += row->of[p] * row->shift;
      }
    }
    const auto change = solve3(normal, right, kLeastEigenvalue);
    if (!change) {
      out.reason = "spokes do not oppose each other: angles have to go round the whole circle";
      return out;
    }
    moved = std::max({std::abs((*change)[0]), std::abs((*change)[1]), std::abs((*change)[2])});
    delays.x += (*change)[0];
    delays.y += (*change)[1];
    delays.xy += (*change)[2];
    double scatter = 0, difference = 0, power = 0;
    for (const auto& row : rows) {
      difference += row.difference;
      power += row.power;
      const double fitted = row.of[0] * (*change)[0] + row.of[1] * (*change)[1] + row.of[2] * (*change)[2];
      scatter += (row.shift - fitted) * (row.shift - fitted);
    }
    out.mismatch = std::sqrt(scatter / static_cast<double>(rows.size()));
    differs = !(difference < kLargestDifference * kLargestDifference * power);
  }
  if (!(delays.largest() <= kLargestDelay) || moved > 0.02)
    out.reason = "no delays below 8 samples make opposing spokes agree";
  else if (differs || out.mismatch > kLargestScatter)
    out.reason =
        "opposing spokes have little in common: the signal is below the noise, or the trajectory is not that "
        "of the data";
  else
    out.delays = delays;
  return out;
}

}  // namespace echotrain::numerics
