// A CUDA graph of repeated work, recorded once and launched again and again.
#pragma once

#include <functional>
#include <memory>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics::cuda {

/// Does `work`, which enqueues on the context's stream, or launches the graph of it in `recorded`. When `recorded` is
/// null, the work is recorded first; where the driver or the work does not allow that, or the resources' options do
/// not, the work is done directly, now and later. The work must have been done once before, as kernels that are loaded
/// cannot be recorded; it must ask for no memory, and must always do the same in the same memory, which outlives
/// `recorded`.
void run_as_graph(Context& context, std::shared_ptr<void>& recorded, const char* what,
                  const std::function<void()>& work);

}  // namespace echotrain::numerics::cuda
