// Dual-polarity GRAPPA: lines of EPI that were read backwards are made as if they had been read forward, by kernels
// from references of both polarities.
#pragma once

#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/mri/parallel/line_correction.h"

namespace echotrain::numerics {

/// A line of a frame.
struct PolarityLine {
  std::int32_t line = 0;  ///< encoding step
  bool reversed = false;  ///< true: it was read backwards; it is stored forward
  bool operator==(const PolarityLine&) const = default;
};

struct DualPolarityOptions {
  std::int64_t kernel_x = 5;  ///< samples of each line that a kernel takes; cut to those of the references
  std::int64_t nearest = 4;   ///< lines beside the made one: half of them on either side
  std::int64_t reach = 8;     ///< largest distance from the made line; cut to a third of the references
  /// Tikhonov's lambda as a share of the mean of the matrix's diagonal.
  double regularization = 1e-4;
};

/// Kernels that make the lines of a frame: correct_lines(hybrid, rows, half, e), half and e [coil, line of the frame,
/// x].
struct DualPolarityKernels {
  HybridKernels hybrid;
  LineCorrections rows;
  double residual = 0;  ///< the largest relative residual of all kernels: norm of the references' misfit over norm of
                        ///< the references
  std::int64_t patterns = 0;
};

/// Fits the kernels of a frame. A line that was read forward stays. One that was read backwards is a weighted sum over
/// samples of itself and of its nearest lines; each source line has separate weights for either polarity, as coils
/// have. The fit takes forward and reversed references, each in the polarity of the frame's line, as sources, and the
/// forward reference as target. Each arrangement of lines in the frame has its own weights (first and last lines among
/// them). Source: Hoge and Polimeni, "Dual-polarity GRAPPA", MRM 76, 2016, with forward references as targets in place
/// of the mean of both ways, and without lines that were not acquired, which GRAPPA makes afterwards.
///
/// forward, reversed: [coil, y, x], the same lines without a gap, x in k-space. lines: those of the frame, in any
/// order; samples: the number in each. Least squares in float64; the same bits for any number of threads. Throws
/// std::invalid_argument where references have fewer equations than a third of the unknowns, are 0 or not finite, where
/// shapes do not fit, or where lines lie in more than 64 arrangements.
DualPolarityKernels fit_dual_polarity(Context& context, HostView<const cfloat> forward, HostView<const cfloat> reversed,
                                      const std::vector<PolarityLine>& lines, std::int64_t samples,
                                      const DualPolarityOptions& options = {});

}  // namespace echotrain::numerics
