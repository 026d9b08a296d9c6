// Moving samples to where the next operation wants them, and images to what the client wants.
#pragma once

#include <cstdint>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// to[first_sample + i * samples + s, c] = from[i, c, s]: readouts [readout, coil, sample] become rows of the
/// sample-major layout [sample, coil] that gridding reads.
void to_sample_major(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to, std::int64_t first_sample);

/// Adds Cartesian lines to k-space: kspace[c, line[i], x0 + s - s0] += from[i, c, s] for s in [s0, s1); readouts with
/// line[i] < 0 are left out. from: [readout, coil, sample]; kspace: [coil, line, x]; lines: [readout]. Readouts
/// are added in order, so repeated lines (averages) sum to the same bits in every run.
struct LinePlacement {
  std::int64_t first_sample = 0;  ///< s0
  std::int64_t last_sample = 0;   ///< s1
  std::int64_t first_x = 0;       ///< x0
};
void add_lines(Context& context, DeviceView<const cfloat> from, HostView<const std::int32_t> lines,
               const LinePlacement& placement, DeviceView<cfloat> kspace);

/// kspace[c, line, x] *= factors[line]; factors: [line].
void scale_lines(Context& context, HostView<const float> factors, DeviceView<cfloat> kspace);

/// Voxel-wise conversion of complex images, `scale` applied first.
enum class Component { complex, magnitude, phase, real, imaginary };
void component(Context& context, DeviceView<const cfloat> from, Component what, float scale, DeviceView<float> to);
/// The same, rounded to the nearest integer and clamped to 0..65535.
void component(Context& context, DeviceView<const cfloat> from, Component what, float scale,
               DeviceView<std::uint16_t> to);
/// to = scale * from.
void scale(Context& context, DeviceView<const cfloat> from, float factor, DeviceView<cfloat> to);

}  // namespace echotrain::numerics
