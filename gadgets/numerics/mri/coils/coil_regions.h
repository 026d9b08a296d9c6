// Parts of coil arrays [coil, z, y, x] on the way from reference lines to sensitivities.
#pragma once

#include <array>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/extents.h"

namespace echotrain::numerics {

/// to[c, z, y, x] = factors[0][z] factors[1][y] factors[2][x] from[c, first[0] + z, first[1] + y, first[2] + x], the
/// factors' product in float64. Asynchronous on CUDA. Throws std::invalid_argument where an axis has not as many
/// factors as points in `to`, or where points would come from outside of `from`.
void cut_region(Context& context, DeviceView<const cfloat> from, const Extents& first,
                const std::array<std::vector<double>, 3>& factors, DeviceView<cfloat> to);

/// The middle of maps, divided by the root of their sum of squares over coils; 0 where that sum is 1e-12 or less. maps,
/// to: [coil, z, y, x]; index floor(n / 2) of an axis becomes that of the result. Asynchronous on CUDA. Throws
/// std::invalid_argument where `to` has another number of coils, or is larger.
void unit_maps(Context& context, DeviceView<const cfloat> maps, DeviceView<cfloat> to);

}  // namespace echotrain::numerics
