// Flags of EPI readouts, as the gadgets of EPI read them.
#pragma once

#include <cstdint>

#include "gadgets/api/items.h"

namespace echotrain {

/// Flag 22. EpiPhaseCorrection turns such lines and lowers it; of simultaneous slices with `dual_polarity` it stays,
/// for SliceGrappa.
inline constexpr std::uint64_t kReversedFlag = 1ull << 21;

/// True if a line was read from high k to low k.
inline bool is_reversed(const protocol::AcquisitionHeader& head) { return (head.flags & kReversedFlag) != 0; }

}  // namespace echotrain
