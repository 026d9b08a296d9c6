// Lines of EPI that were read backwards, made as if they had been read forward, by kernels from references of both
// ways.
#pragma once

#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/parallel/line_correction.h"

namespace echotrain::numerics {

/// A line of a frame.
struct PolarityLine {
  std::int32_t line = 0;  ///< encoding step
  bool reversed = false;  ///< whether it was read backwards; it is stored forward
  bool operator==(const PolarityLine&) const = default;
};

struct DualPolarityOptions {
  std::int64_t kernel_x = 5;  ///< samples of each line that a kernel takes; cut to those of the references
  std::int64_t nearest = 4;   ///< lines beside the one that is made: half of them on either side
  std::int64_t reach = 8;     ///< lines from the one that is made; cut to a third of the references
  /// Tikhonov's lambda as a share of the mean of the matrix's diagonal.
  double regularization = 1e-4;
};

/// What makes the lines of a frame: correct_lines(hybrid, rows, half, e), half and e [coil, line of the frame, x].
struct DualPolarityKernels {
  HybridKernels hybrid;
  LineCorrections rows;
  double residual = 0;  ///< the most of all kernels: norm of what references miss over norm of these
  std::int64_t patterns = 0;
};

/// A line that was read forward stays. One that was read backwards is the sum over samples of itself and of its
/// nearest lines, each with weights of its own for each way that it was read: the two ways are sources of their own, as
/// other coils are. Weights are fitted where forward and reversed references, each in the way that the frame's line was
/// read, are to give the forward one. All of the frame's arrangements of lines have their own (first and last lines
/// among them). Source: Hoge and Polimeni, "Dual-polarity GRAPPA", MRM 76, 2016, with forward references as targets in
/// place of the mean of both ways, and without lines that were not acquired, which GRAPPA makes afterwards.
///
/// forward, reversed: [coil, y, x], the same lines without a gap, x in k-space. lines: of the frame, in any order;
/// samples: of each. Least squares in float64; the same bits for any number of threads. std::invalid_argument where
/// references have fewer equations than a third of the unknowns, are 0 or not finite, where shapes do not fit, or where
/// lines lie in more than 64 arrangements.
DualPolarityKernels fit_dual_polarity(Context& context, HostView<const cfloat> forward, HostView<const cfloat> reversed,
                                      const std::vector<PolarityLine>& lines, std::int64_t samples,
                                      const DualPolarityOptions& options = {});

}  // namespace echotrain::numerics
