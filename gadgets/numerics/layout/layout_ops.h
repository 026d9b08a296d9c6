// The layout operations of each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/layout/layout.h"

namespace echotrain::numerics {

// clang-format off
ECHOTRAIN_BACKENDS(
void to_sample_major(Context& context, View<const cfloat> from, View<cfloat> to, std::int64_t first_sample);
void add_lines(Context& context, View<const cfloat> from, View<const std::int32_t> lines,
               const LinePlacement& placement, View<cfloat> kspace);
void scale_lines(Context& context, View<const float> factors, View<cfloat> kspace);
void component(Context& context, View<const cfloat> from, Component what, float scale, View<float> to);
void component(Context& context, View<const cfloat> from, Component what, float scale, View<std::uint16_t> to);
void scale(Context& context, View<const cfloat> from, float factor, View<cfloat> to);
)
// clang-format on

}  // namespace echotrain::numerics
