// Density compensation by Pipe and Menon's iteration on the gridding kernel.
#pragma once

#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"

namespace echotrain::numerics {

struct PipeMenonResult {
  Array<float> weights;           ///< [sample], where the context computes
  std::vector<double> residuals;  ///< residual of each iterate; [0]: of the start
  int best = 0;                   ///< the iterate in `weights`: the first with the smallest residual
};

/// w <- w / |C C^T w|, where C interpolates with the plan's own kernel and C^T grids: densely sampled places lose
/// weight until the sampling density that the kernel sees, C C^T w, is flat. It serves any trajectory and dimension.
/// Source: Pipe & Menon, "Sampling density compensation in MRI", MRM 41, 1999.
///
/// The residual of an iterate measures how far that density d = C C^T w is from flat: its standard deviation over its
/// mean, sqrt(<(d - <d>)^2>) / <d>, where <> averages over samples with weights w, that is over the area of k-space. It
/// does not depend on the scale of w. Of the start and `iterations` (0..1000) iterates, the one of the smallest
/// residual is returned; three in a row that are no better than the best end the iteration, but stay in `residuals`.
///
/// The weights are areas (volumes) of k-space in (cycles/pixel)^dims: their scale is that at which <d> is the integral
/// of C C^T's kernel, as it is where samples of these areas lie densely. So an object has its own amplitude wherever
/// the middle of k-space is sampled densely. The sum of the weights is the measure of the sampled k-space only where
/// samples leave no gaps: the space between spokes further apart than the kernel's width belongs to none of them, and
/// samples at the rim, which have none beyond them, get 1.0 to 1.1 times the disc together.
///
/// `start`: [sample], or empty for all 1; a good start (ramp) is worth many iterations. Its scale has no effect.
/// Samples that start with 0, or with anything that is not positive and finite, stay 0, as do those that the plan
/// leaves out. The same bits in every run. On CUDA, waits for the device only at the end. Throws std::invalid_argument
/// on shapes or numbers that do not fit.
PipeMenonResult pipe_menon_density(Context& context, const NufftPlan& plan, DeviceView<const float> start,
                                   int iterations);

}  // namespace echotrain::numerics
