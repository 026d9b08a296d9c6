// The memory of readouts that a gadget holds, beside their arrays.
#pragma once

#include <cstdint>

#include "gadgets/api/items.h"

namespace echotrain {

/// Bytes of readouts beside their data, which the context pays for.
inline std::uint64_t overhead_bytes(const Readouts& readouts) {
  return sizeof(Readouts) + readouts.heads.size() * sizeof(protocol::AcquisitionHeader);
}

}  // namespace echotrain
