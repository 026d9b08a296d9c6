// A table of weights serves interpolation between voxels: eight of them, by a sinc in a Kaiser-Bessel window.
#pragma once

#include <cstdint>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// The weights of voxels first .. first + 7 for a value between voxels. They sum to 1.
struct SincTaps {
  static constexpr int kTaps = 8;     // voxels that a value between voxels comes from
  static constexpr int kSteps = 512;  // places between two voxels for which weights are kept
  std::int64_t first;                 // counted from the voxel that the distance was
  float weights[kTaps];
};

/// Returns the table [kSteps + 1, kTaps] where the context computes: the weights of voxels floor(at) - 3 .. floor(at) +
/// 4, for at - floor(at) = step / kSteps. It is made once for the context.
const float* sinc_table(Context& context);

/// Interpolates the weights linearly between two steps. distance: of the value from a voxel, in voxels.
ECHOTRAIN_HOST_DEVICE inline SincTaps sinc_taps(const float* table, float distance) {
  const float whole = static_cast<float>(static_cast<std::int64_t>(distance) -
                                         (distance < static_cast<float>(static_cast<std::int64_t>(distance)) ? 1 : 0));
  const float place = (distance - whole) * SincTaps::kSteps;
  std::int64_t at = static_cast<std::int64_t>(place);
  if (at >= SincTaps::kSteps) at = SincTaps::kSteps - 1;
  const float part = place - static_cast<float>(at);
  const float* w = table + at * SincTaps::kTaps;
  SincTaps out{};
  out.first = static_cast<std::int64_t>(whole) - (SincTaps::kTaps / 2 - 1);
  for (int i = 0; i < SincTaps::kTaps; ++i) out.weights[i] = (1 - part) * w[i] + part * w[SincTaps::kTaps + i];
  return out;
}

}  // namespace echotrain::numerics
