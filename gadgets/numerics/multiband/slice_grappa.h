// Slices that were excited at once are told apart by kernels in k-space.
#pragma once

#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/parallel/line_correction.h"

namespace echotrain::numerics {

struct SliceGrappaOptions {
  std::int64_t kernel_x = 5;  ///< samples of each line that a kernel takes; cut to the extent of the references
  std::int64_t kernel_y = 5;  ///< lines, with the one that is made in the middle
  /// Tikhonov's lambda as a share of the mean of the matrix's diagonal.
  double regularization = 1e-4;
  /// What other slices leak into a slice is made small by itself, whatever their phases and contrasts are. Otherwise
  /// the kernel only has to make the slice of the sum of all as the references are.
  bool split = true;
};

/// What one slice's kernels are made of.
struct SliceReference {
  HostView<const cfloat> block;  ///< [coil, y, x]: k-space without gaps
  double turns = 0;              ///< by which blips turn this slice's phase from acquired line to acquired line
};

/// Kernels number m of slice m, whose sources are steps target - source in acquired lines: with all sources. For lines
/// near the first and the last one come others, without the sources that are missing: number slices * k + m, where
/// `of_row` says k, for frames of `lines` acquired lines, and -1 nowhere. `step`: of acquired lines in lines of the
/// blocks, whose own phases are those without blips.
///
/// W_s of all slices solve W_s (sum_t A_t A_t^H + lambda) = T_s A_s^H, where the columns of A_t hold the samples of
/// slice t that a kernel takes and those of T_s what they are to give, with the phases of the blips; without `split`,
/// A of the sum of all slices stands for A_t and A_s. Least squares in float64 on the host, all places in the blocks.
/// Sources: Setsompop et al., MRM 67, 2012 (slice-GRAPPA); Cauley et al., MRM 72, 2014 (split).
///
/// `residual`: norm of what is not given over norm of the targets. The same bits for any number of threads.
/// std::invalid_argument where blocks are smaller than the kernel, have fewer equations than a third of the unknowns,
/// are 0 or not finite, or differ in size.
GrappaKernels fit_slices(Context& context, const std::vector<SliceReference>& references, std::int64_t step,
                         std::int64_t lines, const SliceGrappaOptions& options);

/// The rows of all slices of a frame of `lines` acquired lines, row m * lines + j is line j of slice m, for
/// correct_lines() with hybrid_kernels() of the kernels: half [coil, line, x] of the frame, all slices in one.
LineCorrections plan_slices(Context& context, const GrappaKernels& kernels, const HybridKernels& hybrid,
                            std::int64_t slices);

}  // namespace echotrain::numerics
