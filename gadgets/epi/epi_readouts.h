// Flags of EPI readouts, as the gadgets of EPI read them.
#pragma once

#include <cstdint>

#include "gadgets/api/items.h"

namespace echotrain {

inline constexpr std::uint64_t kReversedFlag = 1ull << 21;  // flag 22

/// True if a line is stored from high k to low k.
inline bool is_reversed(const protocol::AcquisitionHeader& head) { return (head.flags & kReversedFlag) != 0; }

}  // namespace echotrain
