// A mean over frames that forgets old ones.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// mean += share (next - mean), element by element: with share 1 / n for the n-th of them the plain mean, with a
/// constant share one in which a frame's weight falls by (1 - share) with each frame after it. Elements of `next` that
/// are not finite are left out. Shapes must be equal, share in [0, 1]; std::invalid_argument otherwise.
void add_to_mean(Context& context, DeviceView<const cfloat> next, float share, DeviceView<cfloat> mean);

}  // namespace echotrain::numerics
