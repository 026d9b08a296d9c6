// The measurement's header as the gadgets of a branch see it.
#pragma once

#include <cstdint>
#include <functional>

#include "protocol/data/header.h"

namespace echotrain {

/// Makes the header for a chain that only readouts of some encoding spaces reach. Gadgets check every space of a header
/// against their abilities, so the spaces that `comes` denies are replaced by the first one that comes; each keeps its
/// number. If all come, or none does, the header is unchanged.
protocol::Header header_for_spaces(protocol::Header header, const std::function<bool(std::uint16_t)>& comes);

}  // namespace echotrain
