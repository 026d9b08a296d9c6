// A measurement's header as the gadgets of a branch see it.
#pragma once

#include <cstdint>
#include <functional>

#include "protocol/data/header.h"

namespace echotrain {

/// Gadgets check every encoding space of a header against what they can do. Where only readouts of some spaces reach a
/// chain, the other spaces are those that `comes` denies, and here they are like the first one that comes, so that each
/// keeps its number. The header as it is where all come or none does.
protocol::Header header_for_spaces(protocol::Header header, const std::function<bool(std::uint16_t)>& comes);

}  // namespace echotrain
