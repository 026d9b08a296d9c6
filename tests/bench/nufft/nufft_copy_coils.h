// The copy takes some coils of readouts to a GPU.
#pragma once

#include <cstdint>

#include "gadgets/numerics/core/context.h"

namespace echotrain::bench {

/// to[readout, c, sample] = from[readout, first + c, sample], asynchronously. `from`: pinned, [readout, coil, sample].
void copy_coils(numerics::Context& context, numerics::HostView<const numerics::cfloat> from, std::int64_t first,
                numerics::DeviceView<numerics::cfloat> to);

}  // namespace echotrain::bench
