// GRAPPA: fits kernels that predict missing rows of k-space from acquired ones.
#pragma once

#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/mri/parallel/lattice.h"

namespace echotrain::numerics {

struct GrappaOptions {
  std::int64_t kernel_x = 5;  ///< samples of each row that a kernel takes; cut to the extents of k-space
  std::int64_t kernel_y = 4;  ///< rows of each plane that a kernel takes
  std::int64_t kernel_z = 4;  ///< planes that a kernel takes, where planes are left out; 1 where none are
  /// Tikhonov's lambda, as a share of the mean of the matrix's diagonal, where there are as many equations as unknowns;
  /// with more equations it falls by the cube of unknowns / equations.
  double regularization = 3e-3;
  /// The least such share for rows outside the acquired ones, which have sources on one side only.
  double outside = 1e-2;
};

/// A kernel: the sample of coil c at x is the sum of weights [c, source, dx, source coil] times the samples of rows
/// target - sources[source] at x + dx - kernel_x / 2.
struct GrappaKernel {
  std::vector<RowStep> sources;
  std::int64_t first = 0;  ///< index of its first weight in GrappaKernels::weights
};

/// The kernels of a frame with given rows.
struct GrappaKernels {
  Lattice lattice;
  std::int64_t coils = 0, kernel_x = 1;
  /// [class - 1]: the kernel with all its sources; after them those that miss acquired sources.
  std::vector<GrappaKernel> kernels;
  Array<cfloat> weights;  ///< weights of all kernels, one after another
  /// For each row [z, y]: the kernel that predicts it; -1: none, because it is on the lattice, or further than half a
  /// step outside the acquired rows, where a prediction is worse than 0.
  std::vector<std::int32_t> of_row;
  double residual = 0;  ///< relative misfit of the fit with all sources: norm of the misfit over norm of the targets
};

/// Fits the kernels of a frame (Griswold et al., "GRAPPA", MRM 47, 2002; kernels along x too, and two accelerated axes:
/// Blaimer et al., MRM 56, 2006), by least squares in float64 over all places where targets and sources are inside the
/// block: nothing wraps round. Rows near the first and the last acquired one have their own kernels, without the
/// missing sources.
///
/// calibration: [coil, z, y, x], a block without gaps. On the CPU, all threads work, with memory that the context's
/// account pays for: 16 (kernel's elements)^2 bytes for each kind of class. On CUDA, all work is done on the device, in
/// about ten times as much of the context's memory, and the host waits once, for the residual and errors. Sums are
/// ordered: the same bits for any number of threads, and in every run. Throws std::invalid_argument where the block is
/// smaller than the kernel, where it has fewer equations than a third of the unknowns, where it is 0 or not finite, or
/// where options or shapes do not fit.
GrappaKernels fit_grappa(Context& context, DeviceView<const cfloat> calibration, const Lattice& lattice,
                         const GrappaOptions& options, const RowPlan& rows);

}  // namespace echotrain::numerics
