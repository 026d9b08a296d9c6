#include "gadgets/numerics/mri/density/density.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "gadgets/numerics/core/thread_pool.h"

namespace echotrain::numerics {
namespace {

/// The samples of one arm, from the centre outwards.
struct Arm {
  std::vector<std::size_t> samples;
  double step_in = 0;   // first radial step that is more than rounding
  double step_out = 0;  // last such step
  double edge = 0;      // radius that the arm reaches
  double angle = 0;     // angle of the arm's outermost sample (2D)
  double share = 1;     // share of the turn or the sphere, in any unit
};

class Ramp {
 public:
  Ramp(HostView<const double> coordinates, double k_max, bool by_angle, const std::stop_token& stop)
      : dims_(static_cast<int>(coordinates.shape()[2])), coordinates_(coordinates.data()), check_stop_(stop) {
    const std::int64_t readouts = coordinates.shape()[0], n = coordinates.shape()[1];
    radii_.resize(static_cast<std::size_t>(readouts * n));
    for (std::size_t s = 0; s < radii_.size(); ++s) {
      check_stop_();
      double square = 0;
      for (int d = 0; d < dims_; ++d) square += std::pow(coordinates[static_cast<std::int64_t>(s) * dims_ + d], 2);
      radii_[s] = std::sqrt(square);
      if (!(radii_[s] <= k_max)) radii_[s] = -1;  // beyond k_max or not a number: in no arm
      largest_ = std::max(largest_, radii_[s]);
    }
    for (std::int64_t r = 0; r < readouts; ++r)
      cut(static_cast<std::size_t>(r * n), static_cast<std::size_t>((r + 1) * n));
    measure();
    if (by_angle && dims_ == 2 &&
        std::all_of(arms_.begin(), arms_.end(), [this](const Arm& arm) { return straight(arm); }))
      share_by_angle();
  }

  std::vector<float> weights() {
    std::vector<float> result(radii_.size(), 0.0f);
    // The edges of arms in order, each with the shares of all arms that reach at least as far.
    std::vector<std::pair<double, double>> reaching;
    for (const Arm& arm : arms_) reaching.emplace_back(arm.edge, arm.share);
    std::sort(reaching.begin(), reaching.end());
    for (std::size_t i = reaching.size(); i-- > 1;) reaching[i - 1].second += reaching[i].second;
    std::size_t central = 0;
    for (const Arm& arm : arms_)
      central += static_cast<std::size_t>(
          std::count_if(arm.samples.begin(), arm.samples.end(), [this](std::size_t s) { return is_central(s); }));
    const double cell = central == 0 ? 0 : cell_;

    for (const Arm& arm : arms_)
      for (std::size_t i = 0; i < arm.samples.size(); ++i) {
        check_stop_();
        const std::size_t s = arm.samples[i];
        if (is_central(s)) {
          result[s] = static_cast<float>(volume(cell) / static_cast<double>(central));
          continue;
        }
        const double r = radii_[s];
        const bool first = i == 0 || is_central(arm.samples[i - 1]), last = i + 1 == arm.samples.size();
        const double out = last ? arm.edge : (r + radii_[arm.samples[i + 1]]) / 2;
        double in = first ? cell : (radii_[arm.samples[i - 1]] + r) / 2;
        // An arm that starts far from the centre has no share of the central cell.
        if (first && r - arm.step_in > cell + arm.step_in / 2) in = r - arm.step_in / 2;
        // The arms that reach this shell, within one step, share it.
        const auto from = std::lower_bound(reaching.begin(), reaching.end(), std::pair(r - (out - in), 0.0));
        const double all = from == reaching.end() ? arm.share : from->second;
        if (all > 0) result[s] = static_cast<float>((volume(out) - volume(in)) * arm.share / all);
      }
    return result;
  }

 private:
  double volume(double r) const {
    constexpr double kPi = std::numbers::pi;
    return dims_ == 2 ? kPi * r * r : 4.0 / 3.0 * kPi * r * r * r;
  }

  // The bound is just under half a step, so that samples at half-integers (where no sample is at the centre) stay
  // outside.
  bool is_central(std::size_t s) const { return radii_[s] < cell_ * (1 - 1e-3); }

  /// Cuts the readout [begin, end) at its smallest radius: the centre lies between that sample and the nearer one of
  /// its neighbours. A readout that starts or ends there is one arm.
  void cut(std::size_t begin, std::size_t end) {
    std::size_t middle = end;
    for (std::size_t s = begin; s < end; ++s, check_stop_())
      if (radii_[s] >= 0 && (middle == end || radii_[s] < radii_[middle])) middle = s;
    if (middle == end) return;
    if (middle + 1 == end)
      middle = end;
    else if (middle != begin && radii_[middle - 1] > radii_[middle + 1])
      ++middle;
    add_arm(begin, middle);
    add_arm(middle, end);
  }

  void add_arm(std::size_t begin, std::size_t end) {
    Arm arm;
    for (std::size_t s = begin; s < end; ++s)
      if (radii_[s] >= 0) arm.samples.push_back(s);
    if (arm.samples.empty()) return;
    // Measured radii may jitter; sorted, they cut the arm's range into shells that do not overlap.
    std::stable_sort(arm.samples.begin(), arm.samples.end(),
                     [this](std::size_t a, std::size_t b) { return radii_[a] < radii_[b]; });
    const double rounding = 1e-6 * largest_;
    const double innermost = radii_[arm.samples.front()], outermost = radii_[arm.samples.back()];
    for (std::size_t s : arm.samples)
      if (radii_[s] > innermost + rounding) {
        arm.step_in = radii_[s] - innermost;
        break;
      }
    for (auto s = arm.samples.rbegin(); s != arm.samples.rend(); ++s)
      if (radii_[*s] < outermost - rounding) {
        arm.step_out = outermost - radii_[*s];
        break;
      }
    arms_.push_back(std::move(arm));
  }

  /// Computes the central cell from the median first step, and the arms' edges.
  void measure() {
    std::vector<double> steps;
    for (const Arm& arm : arms_)
      if (arm.step_in > 0) steps.push_back(arm.step_in);
    if (!steps.empty()) {
      const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
      std::nth_element(steps.begin(), middle, steps.end());
      cell_ = *middle / 2;
    }
    for (Arm& arm : arms_) {
      if (arm.step_in == 0) arm.step_in = arm.step_out = 2 * cell_;  // a single radius
      arm.edge = radii_[arm.samples.back()] + arm.step_out / 2;
    }
  }

  /// True if all samples of the arm lie on the ray through its outermost one.
  bool straight(const Arm& arm) const {
    const double* end = coordinates_ + arm.samples.back() * 2;
    const double slack = 1e-3 * std::hypot(end[0], end[1]) * largest_;
    return std::all_of(arm.samples.begin(), arm.samples.end(), [&](std::size_t s) {
      const double* k = coordinates_ + s * 2;
      return std::abs(k[0] * end[1] - k[1] * end[0]) <= slack && k[0] * end[0] + k[1] * end[1] >= -slack;
    });
  }

  /// Gives each straight arm half of the gap to either neighbour. Arms of one angle share its part. A gap counts as
  /// twice the mean gap at most, so that a sector without arms is not given to those at its rim.
  void share_by_angle() {
    constexpr double kTurn = 2 * std::numbers::pi, kSame = 1e-6;
    std::vector<Arm*> order;
    for (Arm& arm : arms_) {
      const double* end = coordinates_ + arm.samples.back() * 2;
      arm.angle = std::atan2(end[1], end[0]);
      order.push_back(&arm);
    }
    std::stable_sort(order.begin(), order.end(), [](const Arm* a, const Arm* b) { return a->angle < b->angle; });
    std::vector<std::size_t> groups;  // begin of each distinct angle
    for (std::size_t i = 0; i < order.size(); ++i)
      if (i == 0 || order[i]->angle - order[i - 1]->angle > kSame) groups.push_back(i);
    const std::size_t n = groups.size();
    if (n < 3) return;
    const double most = 2 * kTurn / static_cast<double>(n);
    const auto gap = [&](std::size_t g) {  // from group g to the next
      const double to = g + 1 < n ? order[groups[g + 1]]->angle : order[groups[0]]->angle + kTurn;
      return std::min(most, to - order[groups[g]]->angle);
    };
    for (std::size_t g = 0; g < n; ++g) {
      const std::size_t end = g + 1 < n ? groups[g + 1] : order.size();
      const double share = (gap(g) + gap((g + n - 1) % n)) / 2 / static_cast<double>(end - groups[g]);
      for (std::size_t i = groups[g]; i < end; ++i) order[i]->share = share;
    }
  }

  int dims_;
  const double* coordinates_;
  StopCheck check_stop_;
  double largest_ = 0;
  double cell_ = 0;
  std::vector<double> radii_;  // -1: the sample takes no part
  std::vector<Arm> arms_;
};

}  // namespace

std::vector<float> ramp_density(HostView<const double> coordinates, double k_max, bool by_angle,
                                const std::stop_token& stop) {
  const Shape& shape = coordinates.shape();
  if (shape.rank() != 3 || (shape[2] != 2 && shape[2] != 3))
    throw std::invalid_argument("ramp density: expected [readout, sample, 2 or 3], got " + shape.text());
  if (coordinates.size() == 0) return {};
  return Ramp(coordinates, k_max, by_angle, stop).weights();
}

}  // namespace echotrain::numerics
