// How the data of frames reach the gadgets of one chain.
#pragma once

#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"

namespace echotrain {

/// A gadget of a chain: what it takes, and how that may reach it.
struct Reached {
  ItemType takes;
  Delivery delivery;
};

/// What all gadgets of a chain can take. Samples come as the gadgets that take them allow; frames, where none does.
/// Readouts come in batches in any case, so a gadget that takes them says only whether windows may move.
Delivery resolve_delivery(const std::vector<Reached>& chain);

}  // namespace echotrain
