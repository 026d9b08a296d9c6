// Morozov's discrepancy principle: the strength of a prior from the known noise level.
#pragma once

#include <functional>

namespace echotrain::numerics {

struct NoiseMatch {
  enum class Status {
    matched,
    below_range,  ///< even the smallest lambda leaves more than the noise
    above_range,  ///< even the largest leaves less: the data are only noise
    not_matched   ///< too many solves
  };
  Status status = Status::not_matched;
  double lambda = 0;  ///< lambda of the last solve
  int solves = 0;
};

/// Searches between `smallest` and `largest` for the lambda whose residual is `target`, to 2 %, by at most `most` calls
/// of solve(), which solves for a lambda and returns |F x - d|^2, a number that rises with lambda. The search goes from
/// the largest down by decades, so that each solve can begin where the last ended; then by regula falsi in logarithms
/// (Illinois). Throws std::invalid_argument if the numbers leave no range. Source: Morozov 1966.
NoiseMatch match_noise(double target, double smallest, double largest, int most,
                       const std::function<double(double lambda)>& solve);

}  // namespace echotrain::numerics
