// The strength of a prior by what is known of the noise.
#pragma once

#include <functional>

namespace echotrain::numerics {

struct NoiseMatch {
  enum class Status {
    matched,
    below_range,  ///< even the smallest lambda leaves more than the noise
    above_range,  ///< even the largest leaves less: the data are only noise
    not_matched   ///< out of solves
  };
  Status status = Status::not_matched;
  double lambda = 0;  ///< of the last solve
  int solves = 0;
};

/// Morozov's discrepancy principle: looks between `smallest` and `largest` for the lambda whose residual is `target`,
/// to 2 %, by at most `most` calls of solve(), which solves for a lambda and returns |F x - d|^2, a number that rises
/// with lambda. From the largest down by decades, so that each solve can begin where the last ended; then regula falsi
/// in logarithms (Illinois). std::invalid_argument on numbers that leave nothing to look for. Source: Morozov 1966.
NoiseMatch match_noise(double target, double smallest, double largest, int most,
                       const std::function<double(double lambda)>& solve);

}  // namespace echotrain::numerics
