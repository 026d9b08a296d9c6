// The middle of reference lines, as k-space of the images that maps are wanted for.
#pragma once

#include <array>
#include <cstdint>

#include "gadgets/api/items.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain {

/// How many samples [z, y, x] about the centre middle_of_block() can give of this block, at most `most` per axis. 0 or
/// less: the block does not hold the centre. A block that ends within an axis whose field of view is cut loses a sample
/// on each side, which the cut softens.
std::array<std::int64_t, 3> extents_of_middle(const Calibration& block, const numerics::Shape& padded,
                                              const numerics::Shape& image, std::int64_t most);

/// The middle of a block as k-space [coil, z, y, x] of images of the extents `image`, centre at floor(n/2): their field
/// of view is cut from that of the block, as a transform of `padded` points cuts it ([z, y, x] both). Its scale is
/// anyone's. Waits for the device. All extents_of_middle() must be above 0.
Array<cfloat> middle_of_block(numerics::Context& compute, const Calibration& block, const numerics::Shape& padded,
                              const numerics::Shape& image, std::int64_t most);

}  // namespace echotrain
