// The temporal median over frames.
//
// Source: Uecker, Zhang, Voit, Karaus, Merboldt, Frahm, "Real-time MRI at a resolution of 20 ms", NMR Biomed 23, 2010.
#pragma once

#include <span>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

constexpr int kMostMedianFrames = 9;

/// to = the median of the frames' magnitudes at each voxel, for an even number of frames the lower one in the middle;
/// the imaginary part is 0. 1 to kMostMedianFrames frames of one size, in any order; `to` must not be one of them.
/// Voxels that are not finite in a frame count as the largest. Throws std::invalid_argument otherwise.
void median_of_frames(Context& context, std::span<const DeviceView<const cfloat>> frames, DeviceView<cfloat> to);

}  // namespace echotrain::numerics
