// Counts of the pixels that an image's conversion cut or could not represent.
#pragma once

#include <cstdint>

namespace echotrain::numerics {

/// Filled while an image is converted, so that no bad pixel goes unreported.
struct PixelTally {
  std::uint64_t not_finite = 0;  ///< infinite or not a number, in the converted or in the complex image
  std::uint64_t saturated = 0;   ///< finite, and clipped to the range of the pixels' type
  std::uint64_t any = 0;         ///< 1: some pixel is not zero
};

}  // namespace echotrain::numerics
