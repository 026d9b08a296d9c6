// Density compensation: the volume of k-space that each sample stands for.
#pragma once

#include <stop_token>
#include <vector>

#include "gadgets/numerics/core/array.h"

namespace echotrain::numerics {

/// Analytic weights of trajectories whose readouts cross or leave the centre: radial, koosh-ball, spiral. Each readout
/// is cut at its smallest |k| into one or two arms that run outwards. A sample on an arm stands for its shell, between
/// the midpoints to its neighbours' radii, of the disc (dims 2: pi (r_out^2 - r_in^2)) or ball (dims 3: 4/3 pi (r_out^3
/// - r_in^3)), shared among the arms that reach it: equally, or, where all arms are straight and 2D (radial, golden
/// angle), by half the gaps to both neighbours (a gap counts as twice the mean at most). The volume of the central cell
/// (of half the median first step) is shared equally by all samples in it, so a centre that every readout repeats
/// counts once. Weights sum to the volume of sampled k-space ((cycles/pixel)^dims; pi/4 for the full disc). Samples
/// with |k| beyond `k_max` or coordinates that are not finite get 0. coordinates: [readout, sample, dims] in
/// cycles/pixel. Host only; runs once per trajectory. Source: Hoge et al., "Density compensation functions for spiral
/// MRI", MRM 38, 1997, and the ramp filter of projection reconstruction; the shared centre follows from area
/// conservation.
/// `by_angle` false: straight arms in 2D share their shells equally too. Throws Stopped when `stop` says so.
std::vector<float> ramp_density(HostView<const double> coordinates, double k_max, bool by_angle = true,
                                const std::stop_token& stop = {});

}  // namespace echotrain::numerics
