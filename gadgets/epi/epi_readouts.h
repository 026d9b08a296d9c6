// What the gadgets of EPI ask of readouts and their headers.
#pragma once

#include <cstdint>

#include "gadgets/api/items.h"

namespace echotrain {

inline constexpr std::uint64_t kReversedFlag = 1ull << 21;  // flag 22

/// Whether a line is stored from high k to low k.
inline bool is_reversed(const protocol::AcquisitionHeader& head) { return (head.flags & kReversedFlag) != 0; }

/// What readouts take beside their data, which the context pays for.
inline std::uint64_t bytes_beside_data(const Readouts& readouts) {
  return sizeof(Readouts) + readouts.heads.size() * sizeof(protocol::AcquisitionHeader);
}

}  // namespace echotrain
