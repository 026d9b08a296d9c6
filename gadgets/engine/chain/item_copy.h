// Copies of items for several takers (branches).
#pragma once

#include "gadgets/api/items.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain {

/// Copies an item with its data, because gadgets may change their input in place. Parts that gadgets replace but never
/// write to stay shared: frames, plans, positions, trajectories, weights, coil maps, reference lines, and the bytes of
/// messages. Copies are made in stream order. Throws ResourceError when memory is exhausted.
Item copy_of(const Item& item, numerics::Context& compute);

}  // namespace echotrain
