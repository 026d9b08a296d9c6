// unwarp() on each backend; arguments were checked.
#pragma once

#include <cstdint>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

struct UnwarpJob {
  static constexpr int kTaps = 8;     // voxels that a value between voxels comes from
  static constexpr int kSteps = 512;  // places between two voxels for which weights are kept
  std::int64_t batch, planes, rows, columns;
  bool modulate;
  /// [kSteps + 1, kTaps]: the weights of voxels floor(at) - 3 .. floor(at) + 4, for at - floor(at) = step / kSteps;
  /// interpolated linearly between two steps.
  const float* weights;
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
  const float own = shift[y * step];
  const float whole = static_cast<float>(static_cast<std::int64_t>(own) -
                                         (own < static_cast<float>(static_cast<std::int64_t>(own)) ? 1 : 0));
  const float place = (own - whole) * UnwarpJob::kSteps;
  std::int64_t at = static_cast<std::int64_t>(place);
  if (at >= UnwarpJob::kSteps) at = UnwarpJob::kSteps - 1;
  const float part = place - static_cast<float>(at);
  const float* w = job.weights + at * UnwarpJob::kTaps;
  UnwarpRow out{};
  out.first = y + static_cast<std::int64_t>(whole) - (UnwarpJob::kTaps / 2 - 1);
  for (int i = 0; i < UnwarpJob::kTaps; ++i)
    out.weights[i] = factor * ((1 - part) * w[i] + part * w[UnwarpJob::kTaps + i]);
  return out;
}

// clang-format off
ECHOTRAIN_BACKENDS(
void unwarp(Context& context, const UnwarpJob& job, const cfloat* distorted, const float* shift, cfloat* corrected);
)
// clang-format on

}  // namespace echotrain::numerics
