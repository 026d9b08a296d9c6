// Operations across coils.
#pragma once

#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// Root sum of squares: to[0, v] = sqrt(sum_c |from[c, v]|^2), imaginary part 0. from: [coil, ...]; to: [1, ...].
/// Source: Roemer et al., "The NMR phased array", MRM 16, 1990.
void root_sum_of_squares(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to);

/// data[i, c', s] = sum_c matrix[c', c] data[i, c, s] in place. matrix: [coil, coil]; data: [readout, coil, sample].
void apply_coil_matrix(Context& context, DeviceView<const cfloat> matrix, DeviceView<cfloat> data);
/// The same on the host, whatever the backend.
void apply_coil_matrix(Context& context, HostView<const cfloat> matrix, HostView<cfloat> data);

/// Running noise covariance: sum of n n^H over samples, in float64 on the host.
class NoiseCovariance {
 public:
  explicit NoiseCovariance(int coils);
  void add(HostView<const cfloat> noise);  ///< [coil, sample]
  std::int64_t samples() const { return samples_; }
  int coils() const { return coils_; }
  /// The noise covariance C = sum n n^H / (samples - 1), row-major [coil, coil].
  std::vector<cdouble> covariance() const;

 private:
  int coils_;
  std::int64_t samples_ = 0;
  std::vector<cdouble> sum_;
};

/// The whitening matrix W = sqrt(2) L^-1 of C = L L^H (Cholesky), times sqrt(scale)^-1: after it, noise has unit
/// standard deviation in its real and in its imaginary part (Kellman & McVeigh, MRM 54, 2005). `scale` is the ratio of
/// noise power in the imaging data to that in the noise scan. Throws std::invalid_argument when C is not positive
/// definite.
std::vector<cfloat> whitening_matrix(const std::vector<cdouble>& covariance, int coils, double scale);

/// The inverse of a whitening matrix (lower triangular, [coil, coil]), which takes the whitening back.
std::vector<cfloat> inverse_whitening(const std::vector<cfloat>& matrix, int coils);

}  // namespace echotrain::numerics
