// Gradient delays, estimated from spokes through the centre of k-space.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gadgets/numerics/mri/trajectory/spokes.h"

namespace echotrain::numerics {

/// The displacement of samples from the nominal trajectory, in steps from sample to sample: a spoke of direction n is
/// moved by S n, S = [[x, xy], [xy, y]]. A gradient that is t late gives -t / dwell time. S is symmetric, as each
/// gradient axis of the scanner has a delay of its own and an oblique slice mixes them.
struct GradientDelays {
  double x = 0, y = 0, xy = 0;

  Plane shift(const Plane& n) const { return {x * n[0] + xy * n[1], xy * n[0] + y * n[1]}; }
  double largest() const;
  /// The delays, rounded to 1/1000 of a step, so that scans with the same delays have the same positions.
  GradientDelays rounded() const;
};

/// Delays, or the reason why there are none.
struct DelayEstimate {
  std::optional<GradientDelays> delays;
  std::string reason;   ///< for "the delays are not corrected: ..."; empty when there are delays
  double mismatch = 0;  ///< the remaining one: of `ring` relative to the values, of `cross_correlation` in steps
};

inline constexpr double kLargestDelay = 8;  ///< steps; larger estimates are rejected

/// Finds the delays with which spokes have the same values where they intersect (RING), by Gauss-Newton over all pairs
/// of spokes 30 degrees apart or more (at most 1500 of them), from where the spokes are strongest; a pair may differ by
/// a phase that all channels share, as off-resonant spokes do. Source: Rosenzweig, Holme, Uecker, "Simple
/// auto-calibrated gradient delay estimation from few spokes using Radial Intersections (RING)", MRM 81:1898, 2019,
/// where intersections are searched for one by one and without that phase.
/// `between` is called now and then; an exception of it ends the work.
DelayEstimate ring(const Spokes& spokes, const std::function<void()>& between = {});

/// Finds the delays with which spokes agree with opposing ones: the magnitudes predicted from the opposing spokes at a
/// spoke's places are correlated with its own along the spoke. Where no spoke lies exactly opposite (golden angles),
/// values between the four nearest are interpolated by the angle. Source: Block & Uecker, "Simple method for adaptive
/// gradient-delay compensation in radial MRI", ISMRM 2011, 2816, which assumes exact angles and equal delays on both
/// axes, so that spokes do not pass beside each other.
DelayEstimate cross_correlation(const Spokes& spokes, const std::function<void()>& between = {});

/// Moves positions [sample, dims] by delays: each principal axis of `delays` is that much ahead in time. Interpolation
/// is cubic between samples, linear beyond the ends. Components are x, y and others, which stay. Spokes move by shift()
/// exactly.
void delay_positions(const GradientDelays& delays, HostView<double> positions);

/// Solves 3 equations, symmetric and positive definite; empty when they are not, or nearly not: the least eigenvalue is
/// below `least` times the largest.
std::optional<std::array<double, 3>> solve3(const std::array<std::array<double, 3>, 3>& a,
                                            const std::array<double, 3>& b, double least);

}  // namespace echotrain::numerics
