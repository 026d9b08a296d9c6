// Unringing takes the oscillations beside edges out of images whose k-space ends (Gibbs ringing).
#pragma once

#include <cstdint>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

inline constexpr int kMostUnringShifts = 100;
inline constexpr std::int64_t kFewestUnringPoints = 8;
inline constexpr int kUnringWindow = 3;  ///< differences on either side of a voxel that measure the oscillation

/// Kellner, Dhital, Kiselev, Reisert, "Gibbs-ringing artifact removal based on local subvoxel-shifts", MRM 76, 2016.
/// The image is split in two, whose spectra are the image's times
///   G_x = (1 + cos ky) / ((1 + cos kx) + (1 + cos ky)) and G_y = 1 - G_x (k in rad/voxel; both 1/2 where the sum is
///   0),
/// the first is unringed along x, the second along y, and both are added. A line is interpolated by its spectrum at
/// x + s for all s = m / (2 `shifts`), |m| <= shifts (the frequency of half the sampling rate, of even extents, times
/// cos pi s). Each voxel takes the s whose kUnringWindow differences |I(x + s + i + 1) - I(x + s + i)|, i = 1.., or as
/// many to the other side, have the least sum, the smaller |s| where several have, and interpolates linearly from
/// x + s and its neighbour back to x. Lines are periodic.
///
/// data: [..., y, x], complex, in place. It must not be interpolated (zero-filled) or filtered, and its k-space must be
/// as long on both sides: zeros of the sinc are then one voxel apart. shifts: 1..kMostUnringShifts; the paper has 20.
/// Values that are not finite spread along their lines. Asynchronous on CUDA. Throws std::invalid_argument for other
/// numbers, and for fewer than two axes of kFewestUnringPoints.
void unring(Context& context, DeviceView<cfloat> data, int shifts = 20);

}  // namespace echotrain::numerics
