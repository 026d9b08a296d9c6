// How the data of frames reach the gadgets of one chain.
#pragma once

#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"

namespace echotrain {

/// A gadget of a chain: its input type, and how its input may reach it.
struct Reached {
  ItemType takes;
  Delivery delivery;
};

/// The most that all gadgets of a chain can take. Without a gadget that takes samples, this is `frames`. Readouts
/// always come in batches, so a gadget that takes them decides only whether windows may move.
Delivery resolve_delivery(const std::vector<Reached>& chain);

}  // namespace echotrain
