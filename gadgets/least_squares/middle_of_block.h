// The middle of a calibration block, as k-space of the images that need maps.
#pragma once

#include <array>
#include <cstdint>

#include "gadgets/api/items.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain {

/// The number of samples [z, y, x] about the centre that middle_of_block() can take from this block, at most `most` per
/// axis. 0 or less: the block does not hold the centre. A block that ends within an axis whose field of view is cut
/// loses a sample on each side, because the cut blurs its ends.
std::array<std::int64_t, 3> extents_of_middle(const Calibration& block, const numerics::Shape& padded,
                                              const numerics::Shape& image, std::int64_t most);

/// Returns the middle of a block as k-space [coil, z, y, x] of images of the extents `image`, centre at floor(n/2):
/// their field of view is cut from that of the block, as a transform of `padded` points cuts it ([z, y, x] both). Its
/// scale is arbitrary. Waits for the device. All extents_of_middle() must be above 0.
Array<cfloat> middle_of_block(numerics::Context& compute, const Calibration& block, const numerics::Shape& padded,
                              const numerics::Shape& image, std::int64_t most);

}  // namespace echotrain
