// Partial Fourier reconstruction: fills a one-sided k-space by the symmetry that it would have if the image were real
// apart from a smooth phase.
#pragma once

#include <array>
#include <cstdint>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// The acquired part of a k-space: points first .. last - 1 of each axis, slowest first.
struct AcquiredBox {
  std::array<std::int64_t, 3> first{}, last{};  ///< z, y, x
};

/// Tells whether an axis of n points lacks at least two points more of one side than of the other. `missing`: number of
/// its n points that could be filled from the other side.
struct OneSided {
  bool one_sided = false;
  std::int64_t missing = 0;
  std::int64_t band = 0;  ///< points -band .. band about the centre floor(n / 2) were acquired
};
OneSided one_sided(std::int64_t n, std::int64_t first, std::int64_t last);

// The phase is that of the middle of k-space: points up to `band` of each one-sided axis, times Hann's window. Both
// functions work in place on the full extents [coil, z, y, x], each coil alone, centre floor(n / 2); points outside the
// box must be 0. Where no axis is one-sided (homodyne: where `axis` is two-sided), nothing changes. Throws
// std::invalid_argument for boxes that do not hold the centre and its neighbours, and other numbers. Asynchronous on
// CUDA.

/// Homodyne detection along one axis (0: z, 1: y, 2: x): the acquired side counts twice, with a ramp across the band,
/// and the image is Re(image exp(-i phase)) exp(i phase). All points change. Source: Noll, Nishimura, Macovski,
/// "Homodyne detection in magnetic resonance imaging", IEEE TMI 10, 1991.
void homodyne(Context& context, DeviceView<cfloat> kspace, const AcquiredBox& box, int axis);

/// Projection onto convex sets: the image gets the phase and keeps its magnitude; acquired points get their values
/// back. Missing points are filled where the point opposite to the centre was acquired; others stay 0. Over
/// `transition` points inside the cut edge (at most the band) the filled values fade out. More than about one iteration
/// fits the magnitude of noise and of the missing edges. Source: Haacke, Lindskogj, Lin, "A fast, iterative,
/// partial-Fourier technique capable of local phase recovery", JMR 92, 1991.
void pocs(Context& context, DeviceView<cfloat> kspace, const AcquiredBox& box, int iterations,
          std::int64_t transition = 0);

}  // namespace echotrain::numerics
