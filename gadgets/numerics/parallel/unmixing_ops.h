// The unmixing of each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/parallel/unmixing.h"

namespace echotrain::numerics {

struct UnmixingWork {
  const float* kernels;             ///< HybridKernels::values
  std::int64_t all_sources;         ///< of these
  std::int64_t sources;             ///< the first ones, which are used
  const cfloat *along_y, *along_z;  ///< [source, y] and [source, z]: the product is the phase of a source at a voxel
  std::int64_t coils, nz, ny, nx;
  const cfloat* maps;
  cfloat* to;
};

// clang-format off
ECHOTRAIN_BACKENDS(
void unmixing(Context& context, const UnmixingWork& work);
)
// clang-format on

}  // namespace echotrain::numerics
