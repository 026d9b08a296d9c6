// A field map of two images that differ in their echo time.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

struct FieldMapOptions {
  double threshold = 0.1;  ///< voxels with less signal than this part of the 99th percentile are not trusted
  double smooth = 1;       ///< standard deviation of the Gaussian that smooths the map [voxels]; 0: none
};

/// Facts about the computation of a map, for the user.
struct FieldMapFacts {
  std::int64_t trusted = 0;  ///< voxels above the threshold
  std::int64_t regions = 0;  ///< trusted regions that do not touch: the multiple of 1 / delta_s between them is a guess
};

/// hz[r] = phase of product[r] / (2 pi delta_s), where product = sum_c late_c conj(early_c) [z, y, x] and delta_s > 0
/// is the time between the echoes. On the host, in float64.
///
/// Trusted voxels are unwrapped from the strongest one on, over the least reliable neighbours last (a spanning tree of
/// the most reliable edges: Abdul-Rahman et al., Applied Optics 46(26), 2007, with the signal as reliability); each
/// region's mean, weighted by the signal, is then within half a turn of 0. The map is a mean of its neighbourhood,
/// weighted by the signal's magnitude. Where nothing is trusted, it is extrapolated from near voxels: the mean over
/// wider and wider Gaussians. A map without any trusted voxel is 0. Throws std::invalid_argument on wrong shapes, and
/// on values that are not finite.
FieldMapFacts field_map(ThreadPool& threads, HostView<const cfloat> product, double delta_s,
                        const FieldMapOptions& options, HostView<float> hz);

}  // namespace echotrain::numerics
