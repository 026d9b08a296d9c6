// The running mean on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/layout/running_mean.h"

namespace echotrain::numerics {

// clang-format off
ECHOTRAIN_BACKENDS(
void add_to_mean(Context& context, DeviceView<const cfloat> next, float share, DeviceView<cfloat> mean);
void take_frame(Context& context, const double* power, double most, float share, FrameLikeness* frame);
void add_like_frame(Context& context, DeviceView<const cfloat> next, const FrameLikeness* frame,
                    DeviceView<cfloat> mean);
)
// clang-format on

}  // namespace echotrain::numerics
