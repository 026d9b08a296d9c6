// FFTs of single lines in float64, on the host for both backends.
#pragma once

#include <cstdint>

#include "gadgets/numerics/core/context.h"

struct fftw_plan_s;

namespace echotrain::numerics {

/// Plans the forward transform of lines of n points, in place, with element 0 as the origin, unscaled. FFTW plans by
/// estimate, so that every run has the same bits.
class LinePlanFloat64 {
 public:
  /// Throws ResourceError when FFTW has no plan.
  explicit LinePlanFloat64(std::int64_t n);
  LinePlanFloat64(const LinePlanFloat64&) = delete;
  LinePlanFloat64& operator=(const LinePlanFloat64&) = delete;
  ~LinePlanFloat64();

  /// Transforms a line of n points of real and imaginary part. May be called from any thread.
  void execute(double* line) const;

 private:
  fftw_plan_s* plan_;
};

}  // namespace echotrain::numerics
