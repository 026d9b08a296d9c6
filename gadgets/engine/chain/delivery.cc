#include "gadgets/engine/chain/delivery.h"

#include <algorithm>

namespace echotrain {

Delivery resolve_delivery(const std::vector<GadgetDelivery>& chain) {
  bool samples = false;
  Delivery all = Delivery::windows;
  for (const GadgetDelivery& gadget : chain) {
    if (gadget.takes == ItemType::samples || gadget.takes == ItemType::plane_samples) {
      samples = true;
      all = std::min(all, gadget.delivery);
    } else if (gadget.takes == ItemType::readouts || gadget.takes == ItemType::plane_readouts) {
      all = std::min(all, std::max(gadget.delivery, Delivery::parts));
    }
  }
  return samples ? all : Delivery::frames;
}

}  // namespace echotrain
