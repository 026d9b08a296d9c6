// Crops, flips and exchanges of an image's axes.
#pragma once

#include <array>
#include <cstdint>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// The source of an image's voxels, per axis of the result (slowest first: z, y, x).
struct Rearrangement {
  std::array<int, 3> axis{0, 1, 2};            ///< the axis of the source; each occurs once
  std::array<std::int64_t, 3> first{0, 0, 0};  ///< the source's index on that axis at index 0 of the result
  std::array<int, 3> step{1, 1, 1};            ///< 1, or -1: the axis is flipped
};

/// to[c, i0, i1, i2] = from[c, j] with j[axis[a]] = first[a] + step[a] * i_a. from, to: [coil, z, y, x]. Throws
/// std::invalid_argument when voxels would come from outside `from`.
void rearrange(Context& context, DeviceView<const cfloat> from, const Rearrangement& how, DeviceView<cfloat> to);

}  // namespace echotrain::numerics
