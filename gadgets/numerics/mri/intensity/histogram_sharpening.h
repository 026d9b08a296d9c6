// A HistogramSharpening takes the blur of a slowly varying field out of the values of an image.
#pragma once

#include <vector>

#include "gadgets/numerics/transforms/fft/line_plan_float64.h"

namespace echotrain::numerics {

/// The expected true logarithm of a voxel, given the one that was seen, where the field's logarithm has a Gaussian
/// distribution of `width` (full width at half maximum): Sled, Zijdenbos & Evans (IEEE TMI 17(1), 1998), equations 10
/// to 13. The histogram has `bins` bins from the least to the largest value, each value shared by its two neighbours,
/// and is deconvolved by a Wiener filter with the term `noise`.
class HistogramSharpening {
 public:
  HistogramSharpening(int bins, double width, double noise);
  /// Replaces each of at least one finite value by its expectation. Values that are all equal stay.
  void sharpen(std::vector<double>& values);

 private:
  void transform(std::vector<double>& line, bool inverse) const;

  const int bins_;
  const double width_, noise_;
  const std::int64_t padded_;
  const LinePlanFloat64 plan_;
};

}  // namespace echotrain::numerics
