// unwarp() on each backend; arguments were checked.
#pragma once

#include <cstdint>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/mri/field/sinc_taps.h"

namespace echotrain::numerics {

struct UnwarpJob {
  static constexpr int kTaps = SincTaps::kTaps;
  std::int64_t batch, planes, rows, columns;
  bool modulate;
  const float* weights;  // sinc_table()
};

/// The parts of a corrected voxel: weights[tap] of row first + tap.
struct UnwarpRow {
  std::int64_t first;
  float weights[UnwarpJob::kTaps];
};

/// Computes the parts for row y of a line of shifts of stride `step`.
ECHOTRAIN_HOST_DEVICE inline UnwarpRow unwarp_row(const UnwarpJob& job, const float* shift, std::int64_t step,
                                                  std::int64_t y) {
  const std::int64_t below = y > 0 ? y - 1 : y, above = y + 1 < job.rows ? y + 1 : y;
  const float slope =
      above > below ? (shift[above * step] - shift[below * step]) / static_cast<float>(above - below) : 0;
  float factor = job.modulate ? 1 + slope : 1;
  if (1 + slope <= 0) factor = 0;
  const SincTaps taps = sinc_taps(job.weights, shift[y * step]);
  UnwarpRow out{};
  out.first = y + taps.first;
  for (int i = 0; i < UnwarpJob::kTaps; ++i) out.weights[i] = factor * taps.weights[i];
  return out;
}

// clang-format off
ECHOTRAIN_BACKENDS(
void unwarp(Context& context, const UnwarpJob& job, const cfloat* distorted, const float* shift, cfloat* corrected);
)
// clang-format on

}  // namespace echotrain::numerics
