// The regularizers' parts for each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/extents.h"
#include "gadgets/numerics/solver/regularizer.h"

namespace echotrain::numerics {

/// Differences along axes: the edge between r and r + e_a counts factor[a] weights[a][r]^2.
struct Stencil {
  Extents n{1, 1, 1};
  float factor[3] = {0, 0, 0};                            ///< 0: no such axis
  const float* weights[3] = {nullptr, nullptr, nullptr};  ///< nullptr: all 1
};

/// A matrix by rows, where the context computes.
struct CsrView {
  std::int64_t rows = 0;
  const std::int64_t* row_starts = nullptr;
  const std::int32_t* column = nullptr;
  const cfloat* values = nullptr;
};

namespace cpu {
void add_identity(Context& context, float scale, const cfloat* x, cfloat* y, std::int64_t n);
void add_stencil(Context& context, const Stencil& stencil, float scale, const cfloat* x, cfloat* y, std::int64_t batch);
void stencil_diagonal(Context& context, const Stencil& stencil, float* diagonal);
/// to = m from (add 0), or to + scale m from (add 1); sums of a row in its order.
void multiply_sparse(Context& context, const CsrView& m, float scale, bool add, const cfloat* from, cfloat* to);
/// The diagonal of W^H W: sums of |value|^2 over the rows of W^H. Neighbours of one column are one value.
void sparse_diagonal(Context& context, const CsrView& transposed, float* diagonal);
}  // namespace cpu
namespace cuda {
void add_identity(Context& context, float scale, const cfloat* x, cfloat* y, std::int64_t n);
void add_stencil(Context& context, const Stencil& stencil, float scale, const cfloat* x, cfloat* y, std::int64_t batch);
void stencil_diagonal(Context& context, const Stencil& stencil, float* diagonal);
void multiply_sparse(Context& context, const CsrView& m, float scale, bool add, const cfloat* from, cfloat* to);
void sparse_diagonal(Context& context, const CsrView& transposed, float* diagonal);
}  // namespace cuda

}  // namespace echotrain::numerics
