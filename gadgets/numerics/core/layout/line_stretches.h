// Stretches of readouts within which each line comes once, so that a stretch's readouts can be added at the same time.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "gadgets/numerics/core/array.h"

namespace echotrain::numerics {

/// `lines`: each readout's line, [readout]; negative for a readout of no line. Returns the end of each stretch; the
/// last is lines.size(). Empty when there are more than `most` stretches. Stretches are as long as they can be, from
/// the first readout on. Takes O(n log n) for n readouts and a fixed number of allocations, whatever the lines are.
std::vector<std::int64_t> line_stretches(HostView<const std::int32_t> lines,
                                         std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace echotrain::numerics
