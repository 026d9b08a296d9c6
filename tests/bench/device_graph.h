// A device graph measures the time that a GPU alone takes for work that is asynchronous on contexts' streams: the work
// is recorded as a CUDA graph, so that the host's launches cost little. Benches use it.
#pragma once

#include <functional>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::bench {

/// Median seconds of `work` as a whole, which enqueues on the contexts' streams; work on different streams may run at
/// the same time. It is called twice, first to make plans and memory.
double device_seconds_of(const std::vector<numerics::Context*>& contexts, const std::function<void()>& work);

}  // namespace echotrain::bench
