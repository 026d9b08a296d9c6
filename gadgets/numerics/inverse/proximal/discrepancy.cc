#include "gadgets/numerics/inverse/proximal/discrepancy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace echotrain::numerics {

NoiseMatch match_noise(double target, double smallest, double largest, int most,
                       const std::function<double(double)>& solve) {
  if (!(target > 0) || !std::isfinite(target) || !(smallest > 0) || !(largest > smallest) || !std::isfinite(largest) ||
      most < 1)
    throw std::invalid_argument(
        fmt::format("match noise: a residual of {} for a lambda between {} and {} cannot be found in {} solves", target,
                    smallest, largest, most));
  /// log lambda, and the log of residual over target.
  struct Point {
    double at = 0, excess = 0;
  };
  constexpr double kAccuracy = 0.02, kLeast = 1e-9;  // rounding can leave any small residual, even below 0
  using Status = NoiseMatch::Status;
  NoiseMatch match;
  bool good = false;
  const auto look = [&](double log_lambda) {
    match.lambda = std::exp(log_lambda);
    ++match.solves;
    const Point point{log_lambda, std::log(std::max(solve(match.lambda) / target, kLeast))};
    good = std::abs(std::expm1(point.excess)) <= kAccuracy;
    return point;
  };
  const auto end = [&](Status status) {
    match.status = status;
    return match;
  };
  const double lowest = std::log(smallest);
  Point high = look(std::log(largest));
  if (good) return end(Status::matched);
  if (high.excess < 0) return end(Status::above_range);
  Point low = high;
  while (low.excess > 0) {
    if (low.at <= lowest) return end(Status::below_range);
    if (match.solves >= most) return end(Status::not_matched);
    high = low;
    low = look(std::max(lowest, low.at - std::log(10.0)));
    if (good) return end(Status::matched);
  }
  while (match.solves < most) {
    const double share = std::clamp(low.excess / (low.excess - high.excess), 0.05, 0.95);
    const Point middle = look(low.at + share * (high.at - low.at));
    if (good) return end(Status::matched);
    // The excess of the end that stays is halved, so that both ends move.
    (middle.excess < 0 ? high : low).excess /= 2;
    (middle.excess < 0 ? low : high) = middle;
  }
  return end(Status::not_matched);
}

}  // namespace echotrain::numerics
