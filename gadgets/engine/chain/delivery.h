// The choice of the Delivery for a chain: the way in which frames' data reach its gadgets.
#pragma once

#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"

namespace echotrain {

/// A gadget of a chain: its input type, and the delivery that it can take.
struct GadgetDelivery {
  ItemType takes;
  Delivery delivery;
};

/// The most that all gadgets of a chain can take. Without a gadget that takes samples, this is `frames`. Readouts
/// always come in batches, so a gadget that takes them decides only whether windows may move.
Delivery resolve_delivery(const std::vector<GadgetDelivery>& chain);

}  // namespace echotrain
