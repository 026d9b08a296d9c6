// The choice between one set of coil maps and two.
#pragma once

#include "gadgets/numerics/mri/espirit/espirit_ops.h"

namespace echotrain::numerics {

/// The eigenvalue from which on a voxel's second pattern of coils counts for the choice. It is 1 where the data hold
/// both patterns (Uecker et al., MRM 71, 2014). Neighbours' patterns leak into a voxel with less, as kernels blur by a
/// part of the field of view: opposite sides of simulated heads that leave 8 % of it empty (8 to 32 coils) reach 0.972;
/// measured heads whose field of view was cut by 1.2, 0.99 and more.
inline constexpr double kSurePattern = 0.975;

/// Returns true where calibration data have energy that the first set of maps leaves, that a second one holds, and that
/// is neither noise nor too little to be seen. With c the images of the calibration data on the maps' grid (under a
/// Hann window, as sidelobes of bright places look like further patterns), E = |c|^2, E_i = |S_i^H c|^2 the energy of
/// set i, and n_i the voxels where it is not 0, it tests
///
///   E_2 - n_2 (coils - 1) s > 0.0003 E,   s = (E - E_1 - E_2) / (coils voxels - n_1 - n_2).
///
/// S_1 leaves (1 - S_1 S_1^H) c, E_2 of it lies along S_2, and s is the mean energy per dimension of the rest: that of
/// noise, which is white across coils. S_2 was fitted to the same data; in a voxel it holds at most all noise that S_1
/// left, (coils - 1) s.
///
/// maps: [2 * coil, z, y, x], vectors of unit length, or 0 where an eigenvalue is below kSurePattern; each axis at
/// least as long as the calibration's. False for two coils, whose data two patterns always explain, and for data that
/// are not finite. Waits for the device.
bool needs_second_set(Context& context, const EspiritCalibration& calibration, DeviceView<const cfloat> maps);

}  // namespace echotrain::numerics
