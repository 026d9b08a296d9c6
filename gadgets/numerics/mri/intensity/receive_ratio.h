// The receive ratio of two coils: how much more the one sees than the other, as a smooth field.
#pragma once

#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/extents.h"

namespace echotrain::numerics {

struct ReceiveRatioOptions {
  double smoothness = 0.1;  ///< weight of the Laplacian's square, per voxel of the grid; above 0
  double accuracy = 1e-5;   ///< of the solution: residual over right-hand side
  int iterations = 2000;    ///< at most
};

struct ReceiveRatio {
  std::vector<double> field;  ///< [z, y, x]
  int iterations = 0;
};

/// The field f that minimises sum_r (seen[r] - f[r] reference[r])^2 + smoothness max(reference)^2 sum_r (Laplacian
/// f)[r]^2: a fit weighted by the signal of the reference, smooth across noise and continued where there is no signal.
/// Source: the regularised least squares of Allison, Ramani & Fessler (IEEE TMI 32(3), 2013), equation 3, with one
/// coil; by conjugate gradients with the diagonal as preconditioner. Differences across the border count as 0. seen,
/// reference: magnitudes on `grid` [z, y, x], ringing alike, as both have the same window. On the host, in float64.
/// Throws std::invalid_argument on wrong sizes, values that are not finite, and a reference without signal.
ReceiveRatio receive_ratio(const ThreadPool& threads, const Extents& grid, const std::vector<double>& seen,
                           const std::vector<double>& reference, const ReceiveRatioOptions& options = {});

}  // namespace echotrain::numerics
