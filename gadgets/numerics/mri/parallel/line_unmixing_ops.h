// Unmixing along y on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/mri/parallel/line_unmixing.h"

namespace echotrain::numerics {

struct LineUnmixingWork {
  const LineUnmixing& plan;
  const HybridKernels& hybrid;
  const LineCorrections& corrections;
  DeviceView<const cfloat> half;
  cfloat* image;
};

// clang-format off
ECHOTRAIN_BACKENDS(
/// True if sums are faster than transforms of that many rows and pairs.
bool unmixing_pays(const LineUnmixing& plan);
/// Fills in the backend's form of the weights. middle: the point between partners.
void keep_weights(Context& context, const Array<cfloat>& factors, const LineCorrections& corrections, double middle,
                  float scale, LineUnmixing& plan);
void unmix_lines(Context& context, const LineUnmixingWork& work);
)
// clang-format on

}  // namespace echotrain::numerics
