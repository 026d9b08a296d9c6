// Spokes through the centre of k-space, and their values between samples.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/array.h"

namespace echotrain::numerics {

using Plane = std::array<double, 2>;  ///< x, y

/// Straight, evenly sampled readouts of one plane. Sample s of spoke i lies nominally at (first[i] + s) directions[i],
/// in units of the step from sample to sample.
struct Spokes {
  std::int64_t samples = 0, channels = 0;
  std::vector<Plane> directions;  ///< of length 1
  std::vector<double> first;
  std::vector<cfloat> data;  ///< [spoke, sample, channel]: channels fastest

  std::int64_t count() const { return static_cast<std::int64_t>(directions.size()); }
};

/// Values of spokes at any place: a sinc of 24 samples under a Kaiser window. Where the object fills no more than 0.8
/// of the field of view of the sampling along the spoke (twofold oversampling: 0.5), they are accurate to 1e-4 of the
/// largest value. Values beyond a spoke's ends count as zero.
class SpokeValues {
 public:
  explicit SpokeValues(const Spokes& spokes);  ///< `spokes` must outlive this
  /// The values of all channels at `place` on a spoke, in the units of Spokes::first.
  void at(std::int64_t spoke, double place, std::vector<cdouble>& out) const;
  /// Does the same, and gives the derivatives by the position.
  void at(std::int64_t spoke, double place, std::vector<cdouble>& out, std::vector<cdouble>& slope) const;

 private:
  template <bool kSlope>
  void sum(std::int64_t spoke, double place, cdouble* out, cdouble* slope) const;

  const Spokes& spokes_;
  std::vector<double> kernel_, slope_;  // at distances k / kSteps
};

}  // namespace echotrain::numerics
