// What a conversion of an image counts of its pixels.
#pragma once

#include <cstdint>

namespace echotrain::numerics {

/// Filled while an image is converted, so that nothing that is wrong with it leaves unnoticed.
struct PixelTally {
  std::uint64_t not_finite = 0;  ///< infinite or not a number, as converted or in the complex image before
  std::uint64_t saturated = 0;   ///< finite, and cut to what the type of the pixels can hold
  std::uint64_t any = 0;         ///< 1: something is not zero
};

}  // namespace echotrain::numerics
