// Non-local means on each backend; arguments were checked.
#pragma once

#include <cmath>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/extents.h"
#include "gadgets/numerics/mri/images/non_local_means.h"

namespace echotrain::numerics {

/// The parameters of a kernel. Voxels have `parts` floats, 1 or 2.
struct LocalMeans {
  Extents n;
  int parts;
  int patch[3], search[3];  ///< half sizes along z, y, x; 0 along axes of one voxel
  float scale;              ///< 1 / voxels of a patch
  float spared;             ///< 2 v, subtracted from d
  float steepness;          ///< 1 / (h^2 v / s^2)
  float bias;               ///< 2 s^2 of magnitudes, else negative

  ECHOTRAIN_HOST_DEVICE float weight(float sum) const {
    const float over = sum * scale - spared;
    if (over != over) return 0;  // a patch is not finite
    return over > 0 ? expf(-over * steepness) : 1.0f;
  }
  ECHOTRAIN_HOST_DEVICE float without_bias(float mean_square) const {
    const float square = mean_square - bias;
    return square > 0 ? sqrtf(square) : 0.0f;
  }
};

/// |a - b - c + d| / 2 of a block whose floats are `step` apart along x and `row` along y; NaN for a block of zeros.
ECHOTRAIN_HOST_DEVICE inline float detail_of(const float* block, std::int64_t step, std::int64_t row) {
  const float a = block[0], b = block[step], c = block[row], d = block[row + step];
  if (a == 0 && b == 0 && c == 0 && d == 0) return nanf("");
  return 0.5f * fabsf(a - b - c + d);
}

// clang-format off
ECHOTRAIN_BACKENDS(
void non_local_means(Context& context, const float* image, const LocalMeans& how, float* to);
/// to: [z, y / 2, x / 2, parts].
void details(Context& context, const float* image, const Extents& n, int parts, float* to);
)
// clang-format on

}  // namespace echotrain::numerics
