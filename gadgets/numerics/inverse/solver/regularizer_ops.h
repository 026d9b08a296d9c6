// The regularizers' work, voxel by voxel; arguments were checked.
#pragma once

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/extents.h"

namespace echotrain::numerics {

/// Differences along axes: the edge between r and r + e_a counts factor[a] weights[a][r]^2.
struct Stencil {
  Extents n{1, 1, 1};
  float factor[3] = {0, 0, 0};                            ///< 0: no such axis
  const float* weights[3] = {nullptr, nullptr, nullptr};  ///< nullptr: all 1
};

/// y += scale x
void add_identity(Context& context, float scale, const cfloat* x, cfloat* y, std::int64_t n);
/// y += scale R x, for `batch` images.
void add_stencil(Context& context, const Stencil& stencil, float scale, const cfloat* x, cfloat* y, std::int64_t batch);
/// diagonal = R's diagonal.
void stencil_diagonal(Context& context, const Stencil& stencil, float* diagonal);

}  // namespace echotrain::numerics
