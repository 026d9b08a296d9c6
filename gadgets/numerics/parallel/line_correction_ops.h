// The correction of rows on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/parallel/line_correction.h"

namespace echotrain::numerics {

struct CorrectionWork {
  const float* kernels;
  std::int64_t sources, coils, columns, rows;  ///< rows: of half
  const std::int32_t* own;
  const std::int32_t* first;
  const LineCorrections::Term* terms;
  std::int64_t count;
  const cfloat* half;
  cfloat* to;
};

// clang-format off
ECHOTRAIN_BACKENDS(
void correct_lines(Context& context, const CorrectionWork& work);
)
// clang-format on

namespace cpu {
/// to[c] += sign * sum_c' kernel[c, c'] from[c'], each of kHybridLanes columns, real parts before imaginary ones.
void add_correction(const float* kernel, const float* from, float sign, std::int64_t coils, float* to);
}  // namespace cpu

}  // namespace echotrain::numerics
