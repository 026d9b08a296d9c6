// The layout operations of each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/layout/sample_layout.h"

namespace echotrain::numerics {

// clang-format off
ECHOTRAIN_BACKENDS(
void to_sample_major(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to, std::int64_t first_sample);
void add_lines(Context& context, DeviceView<const cfloat> from, HostView<const std::int32_t> lines,
               const LinePlacement& placement, DeviceView<cfloat> kspace);
void scale_lines(Context& context, HostView<const float> factors, DeviceView<cfloat> kspace);
void component(Context& context, DeviceView<const cfloat> from, Component what, float scale, DeviceView<float> to,
               DeviceView<PixelTally> tally);
void component(Context& context, DeviceView<const cfloat> from, Component what, float scale, DeviceView<std::uint16_t> to,
               DeviceView<PixelTally> tally);
void scale(Context& context, DeviceView<const cfloat> from, float factor, DeviceView<cfloat> to,
           DeviceView<PixelTally> tally);
void tally(Context& context, DeviceView<const cfloat> from, DeviceView<PixelTally> tally);
)
// clang-format on

}  // namespace echotrain::numerics
