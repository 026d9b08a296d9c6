// Time segmentation: exp(2 pi i f t) as a sum of few products of a function of t and a function of f.
//
// Sources: Noll, Meyer, Pauly, Nishimura, Macovski, IEEE TMI 10(4), 1991 (segments); Man, Pauly, Macovski, MRM 37, 1997
// (interpolators by least squares); Sutton, Noll, Fessler, IEEE TMI 22(2), 2003, sec. II.C (optimal interpolators, from
// the histogram of the field map); Fessler et al., IEEE TSP 53(9), 2005, sec. IV (the same for F^H F).
#pragma once

#include <span>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// A histogram of frequencies.
struct FieldHistogram {
  std::vector<double> hz;  ///< centres of bins, rising, equally far apart; one bin where all voxels have one frequency
  std::vector<double> share;  ///< share of the voxels, sums to 1
};

/// Makes the histogram of a map in Hz. Bins are so narrow that the phase changes little within one during `duration_s`.
/// A twentieth of the share is spread over all bins, so that rare frequencies between the extremes are approximated
/// well, too. Throws std::invalid_argument for an empty map, and for one that is not finite.
FieldHistogram field_histogram(HostView<const float> field_hz, double duration_s);

/// The histogram of the differences of two voxels' frequencies, which is symmetric.
FieldHistogram differences(const FieldHistogram& field);

/// A segmentation: exp(2 pi i f t) = sum_l weights[t, l] exp(2 pi i f at_s[l]) for all given t.
struct TimeSegments {
  std::vector<double> at_s;      ///< equally far apart
  std::vector<cdouble> weights;  ///< [time, segment]; real where the histogram is symmetric about 0
  double error = 0;              ///< RMS error over times and frequencies: the relative error of either transform
  std::int64_t count() const { return static_cast<std::int64_t>(at_s.size()); }
};

constexpr std::int64_t kMostSegments = 128;
constexpr double kLeastSegmentError = 1e-5;

/// Finds the fewest segments whose error is at most `accuracy`, with the weights of least error (Man 1997, Sutton
/// 2003). times_s: one or more, in any order. Throws std::invalid_argument where kMostSegments do not suffice (the text
/// names the product of time and bandwidth), and for an accuracy below kLeastSegmentError.
TimeSegments time_segments(Context& context, const FieldHistogram& field, std::span<const double> times_s,
                           double accuracy);

}  // namespace echotrain::numerics
