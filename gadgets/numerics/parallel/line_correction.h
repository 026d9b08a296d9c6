// The rows of k-space that kernels get wrong in image space, where they are periodic, and those that are put back.
#pragma once

#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/parallel/hybrid_kernels.h"

namespace echotrain::numerics {

/// Which rows of the transform's grid need a correction, and what of.
///
/// A row is to be what was acquired there, on the lattice or put back, or what its own kernel predicts, or 0. Unmixing
/// takes kernels with all sources, and every lattice row that these reach across the grid's ends. The difference is a
/// sum over acquired rows; where it is not 0, the row is one of these: some rows at each end, and all that are put
/// back.
struct LineCorrections {
  /// What an acquired row adds to a corrected one.
  struct Term {
    std::int32_t source;  ///< of HybridKernels
    std::int32_t row;     ///< acquired: z * encoded y + y
    float sign;           ///< 1 or -1
  };
  std::int64_t encoded_rows = 0;   ///< z * y of the encoded matrix
  std::vector<std::int32_t> rows;  ///< corrected: z * padded y + y, ascending
  Array<std::int32_t> own;         ///< of each: the acquired row that is added as it is, -1 for none
  Array<std::int32_t> first;       ///< of each: its first term; then the number of all
  Array<Term> terms;

  std::int64_t count() const { return static_cast<std::int64_t>(rows.size()); }
};

/// std::invalid_argument where rows are not those of the geometry's encoded matrix.
LineCorrections plan_corrections(Context& context, const GrappaKernels& kernels, const HybridKernels& hybrid,
                                 const RowPlan& rows, const LineGeometry& geometry);

/// The same for all of the encoded matrix's rows, less nothing: with it, correct_lines() gives the filled-in k-space of
/// each coil, where coil images are asked for. Rows that are neither acquired nor predicted are not among them; `rows`
/// are z * encoded y + y.
LineCorrections plan_filling(Context& context, const GrappaKernels& kernels, const HybridKernels& hybrid,
                             const RowPlan& rows);

/// e[coil, i, x] = what row corrections.rows[i] is to be less what unmixing takes it for, x being image space.
/// half: [coil, encoded z * y, image x], as transform_lines() gives it. The image is then that of unmixing plus
/// sum_c S_c^H times the transforms of e_c along y and z. Asynchronous on CUDA. std::invalid_argument on shapes that do
/// not fit.
void correct_lines(Context& context, const HybridKernels& hybrid, const LineCorrections& corrections,
                   DeviceView<const cfloat> half, DeviceView<cfloat> e);

}  // namespace echotrain::numerics
