// An item for several takers.
#pragma once

#include "gadgets/api/items.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain {

/// A copy of an item whose data are its own: gadgets may change those of their input in place. What gadgets replace but
/// never write to stays shared: frames, plans, positions, trajectories, weights, coil maps, reference lines, and the
/// bytes of messages. Copies are made in stream order; ResourceError when memory is exhausted.
Item copy_of(const Item& item, numerics::Context& compute);

}  // namespace echotrain
