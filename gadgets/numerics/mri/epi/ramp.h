// Ramp sampling: the positions of samples taken while the gradient ramps, and their resampling to a regular line.
#pragma once

#include <cstdint>
#include <vector>

namespace echotrain::numerics {

/// A readout gradient and the times of its samples. Times are us from the beginning of its ramp.
struct Trapezoid {
  double ramp_up = 0, flat = 0, ramp_down = 0;
  double delay = 0;  ///< begin of the first sample's dwell time
  double dwell = 0;  ///< dwell time of a sample, which lies in the middle of it
  std::int64_t samples = 0;
};

/// Area under a trapezoid of height 1 until `time` [us]; it is flat outside of the gradient.
double trapezoid_area(const Trapezoid& gradient, double time);

/// The positions of a line's samples in steps of k-space, k = 0 at half the gradient's area. The samples' dwell times
/// are taken to cover `n` steps: headers do not tell how strong a gradient is. `late`: the gradient's delay [us]; it
/// moves samples, and does not change the size of the steps. Throws std::invalid_argument, with a text for the sender,
/// when times are not positive or the samples do not lie within the gradient.
std::vector<double> trapezoid_positions(const Trapezoid& gradient, std::int64_t n, double late = 0);

/// True if samples lie on a line's regular steps, apart from a common shift: there are `n`, 1 apart, to within 0.001.
bool is_regular(const std::vector<double>& positions, std::int64_t n);

/// Weights [sample, x] that make a line of n points at k = x - floor(n/2), or, `descending`, at n - 1 - x - floor(n/2),
/// from samples at `positions` (NaN: a sample that is left out). The line is the regularised least-squares solution for
/// a profile within the field of view, whose k-space is interpolated by sinc; some points beyond both ends are solved
/// for, too. Where samples are more than a step apart, the profile lies within the part of the field of view that they
/// can encode, which has to be `needed` of it at least. Source: Rosenfeld, "An optimal and efficient new gridding
/// algorithm using singular value decomposition", MRM 40, 1998, here with a small constant instead of the truncation.
/// std::invalid_argument, with a text for the sender, when samples do not cover the line or are too far apart.
std::vector<float> regular_line_weights(const std::vector<double>& positions, std::int64_t n, bool descending,
                                        double needed = 1);

}  // namespace echotrain::numerics
