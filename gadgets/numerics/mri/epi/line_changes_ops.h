// The weighted sums of EPI's lines of each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/mri/epi/line_changes.h"

namespace echotrain::numerics {

// clang-format off
ECHOTRAIN_BACKENDS(
void combine_samples(Context& context, HostView<const std::int32_t> sets, DeviceView<const float> weights,
                     DeviceView<const cfloat> from, DeviceView<cfloat> to);
)
// clang-format on

}  // namespace echotrain::numerics
