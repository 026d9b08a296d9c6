// The regularizers' parts for each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/extents.h"
#include "gadgets/numerics/inverse/solver/regularizer.h"

namespace echotrain::numerics {

/// Differences along axes: the edge between r and r + e_a counts factor[a] weights[a][r]^2.
struct Stencil {
  Extents n{1, 1, 1};
  float factor[3] = {0, 0, 0};                            ///< 0: no such axis
  const float* weights[3] = {nullptr, nullptr, nullptr};  ///< nullptr: all 1
};

// clang-format off
ECHOTRAIN_BACKENDS(
void add_identity(Context& context, float scale, const cfloat* x, cfloat* y, std::int64_t n);
void add_stencil(Context& context, const Stencil& stencil, float scale, const cfloat* x, cfloat* y, std::int64_t batch);
void stencil_diagonal(Context& context, const Stencil& stencil, float* diagonal);
)
// clang-format on

}  // namespace echotrain::numerics
