// Slice-GRAPPA and split slice-GRAPPA: kernels in k-space separate slices that were excited at once.
#pragma once

#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/mri/parallel/line_correction.h"

namespace echotrain::numerics {

struct SliceGrappaOptions {
  std::int64_t kernel_x = 5;  ///< samples of each line that a kernel takes; cut to the extent of the references
  std::int64_t kernel_y = 5;  ///< lines that a kernel takes; the one that is made is in the middle
  /// Tikhonov's lambda as a share of the mean of the matrix's diagonal.
  double regularization = 1e-4;
  /// true (split): the leakage of other slices into a slice is minimised by itself, whatever their phases and contrasts
  /// are. false: the kernel only has to make the slice from the sum of all, as the references are.
  bool split = true;
};

/// The reference from which one slice's kernels are made.
struct SliceReference {
  HostView<const cfloat> block;  ///< [coil, y, x]: k-space without gaps
  double turns = 0;              ///< turns by which blips advance this slice's phase from acquired line to acquired
                                 ///< line
  HostView<const cfloat> reversed = {};  ///< the same lines, read backwards (and turned); empty: there are none
};

/// Fits the kernels. Kernel m makes slice m from all sources, which are steps target - source in acquired lines. Lines
/// near the first and the last one have other kernels, without the missing sources: number slices * k + m, where
/// `of_row` holds k, for frames of `lines` acquired lines, and is never -1. `step`: the distance of acquired lines in
/// lines of the blocks, whose own phases are those without blips.
///
/// W_s of all slices solve W_s (sum_t A_t A_t^H + lambda) = T_s A_s^H, where the columns of A_t hold the samples of
/// slice t that a kernel takes and those of T_s the targets, with the phases of the blips; without `split`, A of the
/// sum of all slices stands for A_t and A_s. Least squares in float64 on the host, over all places in the blocks.
/// Sources: Setsompop et al., MRM 67, 2012 (slice-GRAPPA); Cauley et al., MRM 72, 2014 (split).
///
/// `reversed` says which acquired lines of the frame were read backwards (empty: none). Kernels then differ by the
/// directions of the lines that they take, which references of the same directions stand for, and make the slice's
/// line as it is read forward (dual-polarity slice-GRAPPA: Hoge, Setsompop and Polimeni, MRM 80, 2018).
///
/// `residual`: norm of the misfit over norm of the targets, the largest of all directions. The same bits for any number
/// of threads. Throws std::invalid_argument where blocks are smaller than the kernel, have fewer equations than a third
/// of the unknowns, are 0 or not finite, or differ in size, and where lines lie in more than 64 arrangements of
/// directions.
GrappaKernels fit_slices(Context& context, const std::vector<SliceReference>& references, std::int64_t step,
                         std::int64_t lines, const SliceGrappaOptions& options, const std::vector<bool>& reversed = {});

/// The rows of all slices of a frame of `lines` acquired lines, for correct_lines() with hybrid_kernels() of the
/// kernels: row m * lines + j is line j of slice m. half: [coil, line, x] of the frame, all slices in one.
LineCorrections plan_slices(Context& context, const GrappaKernels& kernels, const HybridKernels& hybrid,
                            std::int64_t slices);

}  // namespace echotrain::numerics
