#include <algorithm>
#include <cmath>
#include <utility>

#include "gadgets/numerics/mri/trajectory/gradient_delays.h"

namespace echotrain::numerics {
namespace {

using Matrix3 = std::array<std::array<double, 3>, 3>;
using Three = std::array<double, 3>;

constexpr std::size_t kMostPairs = 1500;
constexpr double kLeastSine = 0.5;  // sine of the least angle between two spokes: 30 degrees
constexpr int kMostRingSteps = 12;
constexpr double kRingGoodEnough = 1e-4, kLongestStep = 0.5;  // changes of x, y, xy in one step
constexpr double kLeastRingEigenvalue = 1e-8, kLeastOfAngles = 1e-3;
constexpr double kLargestError = 0.25;    // standard deviation of a delay [samples]
constexpr double kMismatchOfNoise = 0.8;  // unrelated values differ by more than 1

double cross(const Plane& a, const Plane& b) { return a[0] * b[1] - a[1] * b[0]; }

std::vector<std::pair<std::int64_t, std::int64_t>> pairs_of(const Spokes& spokes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  for (std::int64_t i = 0; i < spokes.count(); ++i)
    for (std::int64_t j = i + 1; j < spokes.count(); ++j)
      if (std::abs(cross(spokes.directions[static_cast<std::size_t>(i)],
                         spokes.directions[static_cast<std::size_t>(j)])) >= kLeastSine)
        all.emplace_back(i, j);
  if (all.size() <= kMostPairs) return all;
  std::vector<std::pair<std::int64_t, std::int64_t>> some;
  for (std::size_t k = 0; k < kMostPairs; ++k) some.push_back(all[k * all.size() / kMostPairs]);
  return some;
}

}  // namespace

/// Estimates the shift of each spoke's strongest stretch from the nominal place of k = 0, fitted by n . S n.
static std::optional<Three> first_guess(const Spokes& spokes) {
  Matrix3 a{};
  Three b{};
  for (std::int64_t i = 0; i < spokes.count(); ++i) {
    const cfloat* value = spokes.data.data() + i * spokes.samples * spokes.channels;
    std::vector<double> power(static_cast<std::size_t>(spokes.samples));
    for (double& p : power)
      for (std::int64_t c = 0; c < spokes.channels; ++c) p += std::norm(cdouble(*value++));
    const auto peak = std::max_element(power.begin(), power.end()) - power.begin();
    const std::int64_t begin = std::max<std::int64_t>(0, peak - 3), end = std::min(spokes.samples, peak + 4);
    double weight = 0, sum = 0;
    for (std::int64_t s = begin; s < end; ++s) {
      weight += power[static_cast<std::size_t>(s)];
      sum += power[static_cast<std::size_t>(s)] * (static_cast<double>(s) + spokes.first[static_cast<std::size_t>(i)]);
    }
    if (!(weight > 0)) continue;
    const Plane& n = spokes.directions[static_cast<std::size_t>(i)];
    const Three row{n[0] * n[0], n[1] * n[1], 2 * n[0] * n[1]};
    for (std::size_t p = 0; p < 3; ++p) {
      for (std::size_t q = 0; q < 3; ++q) a[p][q] += row[p] * row[q];
      b[p] -= row[p] * sum / weight;
    }
  }
  return solve3(a, b, kLeastOfAngles);
}

namespace {

/// The part of a pair of spokes in the equations of one step.
class RingStep {
 public:
  explicit RingStep(const Spokes& spokes) : spokes_(spokes), values_(spokes) {}

  void add(std::int64_t i, std::int64_t j, const GradientDelays& delays) {
    const Plane &p = spokes_.directions[static_cast<std::size_t>(i)],
                &q = spokes_.directions[static_cast<std::size_t>(j)];
    // The spokes meet where s p + S p = t q + S q: s p - t q = S (q - p).
    const Plane e{q[0] - p[0], q[1] - p[1]};
    const double det = -cross(p, q);
    const auto place = [&](const Plane& r) {
      return Plane{(-q[1] * r[0] + q[0] * r[1]) / det, (p[0] * r[1] - p[1] * r[0]) / det};
    };
    const Plane at = place(delays.shift(e));
    const std::array<Plane, 3> by{place({e[0], 0}), place({0, e[1]}), place({e[1], e[0]})};
    values_.at(i, at[0], a_, slope_a_);
    values_.at(j, at[1], b_, slope_b_);
    double power_a = 0, power_b = 0;
    cdouble product{};
    for (std::size_t c = 0; c < a_.size(); ++c) {
      power_a += std::norm(a_[c]);
      power_b += std::norm(b_[c]);
      product += std::conj(b_[c]) * a_[c];
    }
    const double scale = std::sqrt(power_a * power_b);
    if (!(scale > 0) || !(std::abs(product) > 0)) return;
    const cdouble turn = product / std::abs(product);
    // The part that a phase common to the channels explains is taken out of the difference and of its derivatives.
    double common_power = 0;
    for (std::size_t c = 0; c < a_.size(); ++c) common_power += std::norm(a_[c] + turn * b_[c]);
    const double root = std::sqrt(common_power);
    std::array<double, 4> along{};  // parts of the three derivatives and of the difference
    const auto columns = [&](std::size_t c) {
      std::array<cdouble, 4> out;
      for (std::size_t k = 0; k < 3; ++k) out[k] = by[k][0] * slope_a_[c] - by[k][1] * turn * slope_b_[c];
      out[3] = a_[c] - turn * b_[c];
      return out;
    };
    const auto common = [&](std::size_t c) { return cdouble(0, 1) * (a_[c] + turn * b_[c]) / root; };
    for (std::size_t c = 0; c < a_.size(); ++c) {
      const auto column = columns(c);
      const cdouble v = std::conj(common(c));
      for (std::size_t k = 0; k < 4; ++k) along[k] += (v * column[k]).real();
    }
    for (std::size_t c = 0; c < a_.size(); ++c) {
      auto column = columns(c);
      for (std::size_t k = 0; k < 4; ++k) column[k] -= along[k] * common(c);
      for (std::size_t k = 0; k < 3; ++k) {
        for (std::size_t l = 0; l < 3; ++l) normal[k][l] += (std::conj(column[k]) * column[l]).real() / scale;
        right[k] -= (std::conj(column[k]) * column[3]).real() / scale;
      }
      mismatch += std::norm(column[3]) / scale;
    }
    ++pairs;
  }

  Matrix3 normal{};
  Three right{};
  double mismatch = 0;
  std::int64_t pairs = 0;

 private:
  const Spokes& spokes_;
  SpokeValues values_;
  std::vector<cdouble> a_, b_, slope_a_, slope_b_;
};

}  // namespace

DelayEstimate ring(const Spokes& spokes, const std::function<void()>& between) {
  DelayEstimate out;
  const auto pairs = pairs_of(spokes);
  const auto guess = first_guess(spokes);
  if (pairs.size() < 3 || !guess) {
    out.reason = "the spokes lie too close together to intersect; give more of them, or other angles";
    return out;
  }
  GradientDelays delays{(*guess)[0], (*guess)[1], (*guess)[2]};
  RingStep step(spokes);
  double moved = kLargestDelay, error = 0;
  for (int n = 0; n < kMostRingSteps && moved > kRingGoodEnough && delays.largest() <= kLargestDelay; ++n) {
    step.normal = {};
    step.right = {};
    step.mismatch = 0;
    step.pairs = 0;
    for (std::size_t k = 0; k < pairs.size(); ++k) {
      if (between && k % 64 == 0) between();
      step.add(pairs[k].first, pairs[k].second, delays);
    }
    const auto change = solve3(step.normal, step.right, kLeastRingEigenvalue);
    // The error of the delays is estimated from the residual. Each spoke is in many pairs, whose differences are not
    // independent.
    const double pairs_now = static_cast<double>(std::max<std::int64_t>(1, step.pairs));
    const double variance = step.mismatch / (pairs_now * (2 * static_cast<double>(spokes.channels) - 1)) *
                            std::max(1.0, 2 * pairs_now / static_cast<double>(spokes.count()));
    error = 0;
    for (std::size_t k = 0; k < 3 && change; ++k) {
      Three unit{};
      unit[k] = 1;
      const auto column = solve3(step.normal, unit, kLeastRingEigenvalue);
      error = std::max(error, column ? std::sqrt(variance * (*column)[k]) : kLargestDelay);
    }
    if (!change) {
      out.reason =
          "the values of spokes do not depend on where they intersect (no signal, or one that is the same all "
          "over the centre of k-space)";
      return out;
    }
    moved = std::max({std::abs((*change)[0]), std::abs((*change)[1]), std::abs((*change)[2])});
    const double share = std::min(1.0, kLongestStep / moved);
    delays.x += share * (*change)[0];
    delays.y += share * (*change)[1];
    delays.xy += share * (*change)[2];
    out.mismatch = std::sqrt(step.mismatch / static_cast<double>(std::max<std::int64_t>(1, step.pairs)));
  }
  if (!(delays.largest() <= kLargestDelay) || moved > 0.01)
    out.reason = "no delays below 8 samples make spokes agree where they intersect";
  else if (out.mismatch > kMismatchOfNoise)
    out.reason =
        "spokes have nothing in common where they intersect: the signal is below the noise, or the trajectory "
        "is not that of the data";
  else if (error > kLargestError)
    out.reason = "noise leaves the delays open by more than a quarter of a sample; give more spokes";
  else
    out.delays = delays;
  return out;
}

}  // namespace echotrain::numerics
