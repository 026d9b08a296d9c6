// The collection of rows on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/layout/host_rows.h"

namespace echotrain::numerics {

// clang-format off
ECHOTRAIN_BACKENDS(
Array<cfloat> collect_rows(Context& context, std::span<const HostRow> rows, const Shape& shape);
)
// clang-format on

/// Collects rows by a copy on the host.
Array<cfloat> copy_rows(Context& context, std::span<const HostRow> rows, const Shape& shape);

}  // namespace echotrain::numerics
