// Layout conversions: samples to the order that the next operation needs, and images to the component that the client
// wants.
#pragma once

#include <cstdint>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/pixel_tally.h"

namespace echotrain::numerics {

/// to[first_sample + i * samples + s, c] = from[i, c, s]: readouts [readout, coil, sample] become rows of the
/// sample-major layout [sample, coil] that gridding reads.
void to_sample_major(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to, std::int64_t first_sample);

/// Adds Cartesian lines to k-space: kspace[c, line[i], x0 + s - s0] += from[i, c, s] for s in [s0, s1); readouts with
/// line[i] < 0 are left out. from: [readout, coil, sample]; kspace: [coil, line, x]; lines: [readout]. Readouts are
/// added in order, so repeated lines (averages) sum to the same bits in every run.
struct LinePlacement {
  std::int64_t first_sample = 0;  ///< s0
  std::int64_t last_sample = 0;   ///< s1
  std::int64_t first_x = 0;       ///< x0
};
void add_lines(Context& context, DeviceView<const cfloat> from, HostView<const std::int32_t> lines,
               const LinePlacement& placement, DeviceView<cfloat> kspace);

/// kspace[c, line, x] *= factors[line]; factors: [line].
void scale_lines(Context& context, HostView<const float> factors, DeviceView<cfloat> kspace);

/// Voxel-wise conversion of complex images, `scale` applied first. `tally`: [1] or empty. The conversion adds to it the
/// voxels whose scaled real or imaginary part is not finite or, for magnitudes, whose magnitude is not, and whether any
/// voxel is not zero.
enum class Component { complex, magnitude, phase, real, imaginary };
void component(Context& context, DeviceView<const cfloat> from, Component what, float scale, DeviceView<float> to,
               DeviceView<PixelTally> tally = {});
/// Converts as above, rounded to the nearest integer and clamped to 0..65535, with NaN as 0. Clamped values are tallied
/// as saturated; an image counts as zero if all its rounded pixels are.
void component(Context& context, DeviceView<const cfloat> from, Component what, float scale,
               DeviceView<std::uint16_t> to, DeviceView<PixelTally> tally = {});
/// to = scale * from.
void scale(Context& context, DeviceView<const cfloat> from, float factor, DeviceView<cfloat> to,
           DeviceView<PixelTally> tally = {});
/// Tallies images that need no conversion.
void tally(Context& context, DeviceView<const cfloat> from, DeviceView<PixelTally> tally);

}  // namespace echotrain::numerics
