// Density compensation by Voronoi cells.
#pragma once

#include <vector>

#include "gadgets/numerics/core/array.h"
#include "gadgets/numerics/core/thread_pool.h"

namespace echotrain::numerics {

/// Each sample's weight is the area of its Voronoi cell, for any 2D trajectory. coordinates: [sample, 2] in
/// cycles/pixel, host. Samples closer than about 1e-6 of the largest |k| are one point and share its cell equally, so a
/// centre that every spoke repeats counts once. Samples with |k| beyond `k_max` or coordinates that are not finite get
/// 0 and take no part.
///
/// Cells that are unbounded or reach beyond the convex hull of the samples are extrapolated: such a cell counts as
/// twice the half of it that faces inward (of the line through its sample along the hull), as if it reached as far out
/// as it reaches in. That is exact for the rims of Cartesian lattices, and at the end of a spoke adds half a step to
/// the disc. Weights are areas in (cycles/pixel)^2, so they sum to the measure of the sampled k-space, as those of
/// ramp_density do (pi/4 for the full disc). A gap inside the hull is given to the samples at its rim.
///
/// Throws std::invalid_argument when fewer than four distinct points remain, when all lie on one line (to 1e-4 of its
/// length), or when there are more than 500,000. Host only; runs once per trajectory. Source: Rasche et al.,
/// "Resampling of data between arbitrary grids using convolution interpolation", IEEE TMI 18(5), 1999.
std::vector<float> voronoi_density(ThreadPool& threads, HostView<const double> coordinates, double k_max);

}  // namespace echotrain::numerics
