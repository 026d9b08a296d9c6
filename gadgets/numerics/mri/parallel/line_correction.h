// Corrections of rows of k-space that GRAPPA's kernels get wrong in image space, where they are periodic, and of rows
// that are put back.
#pragma once

#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/mri/parallel/hybrid_kernels.h"

namespace echotrain::numerics {

/// The rows of the transform's grid that need a correction, and their terms.
///
/// A row should hold the acquired data, on the lattice or put back, or the prediction of its own kernel, or 0. Unmixing
/// applies kernels with all sources, and every lattice row that these reach across the grid's ends. The difference is a
/// sum over acquired rows; where it is not 0, the row is listed here: some rows at each end, and all that are put back.
struct LineCorrections {
  /// The part of an acquired row in a corrected one.
  struct Term {
    std::int32_t source;  ///< source of HybridKernels
    std::int32_t row;     ///< number of the acquired row: z * encoded y + y
    float sign;           ///< 1 or -1
  };
  std::int64_t encoded_rows = 0;   ///< z * y of the encoded matrix
  std::vector<std::int32_t> rows;  ///< numbers of the corrected rows: z * padded y + y, ascending
  Array<std::int32_t> own;         ///< for each: the acquired row that is added unchanged, -1 for none
  Array<std::int32_t> first;       ///< for each: its first term; then the number of all terms
  Array<Term> terms;

  std::int64_t count() const { return static_cast<std::int64_t>(rows.size()); }
};

/// Plans the corrections of a frame. Throws std::invalid_argument where rows are not those of the geometry's encoded
/// matrix.
LineCorrections plan_corrections(Context& context, const GrappaKernels& kernels, const HybridKernels& hybrid,
                                 const RowPlan& rows, const LineGeometry& geometry);

/// Plans all of the encoded matrix's rows without subtracting unmixing: correct_lines() then gives the filled-in
/// k-space of each coil, for coil images. Rows that are neither acquired nor predicted are not listed; `rows` are z *
/// encoded y + y.
LineCorrections plan_filling(Context& context, const GrappaKernels& kernels, const HybridKernels& hybrid,
                             const RowPlan& rows);

/// e[coil, i, x] = what row corrections.rows[i] should hold minus what unmixing takes it for, x being image space.
/// half: [coil, encoded z * y, image x], as transform_lines() gives it. The image is then that of unmixing plus sum_c
/// S_c^H times the transforms of e_c along y and z. Asynchronous on CUDA. Throws std::invalid_argument on shapes that
/// do not fit.
void correct_lines(Context& context, const HybridKernels& hybrid, const LineCorrections& corrections,
                   DeviceView<const cfloat> half, DeviceView<cfloat> e);

}  // namespace echotrain::numerics
