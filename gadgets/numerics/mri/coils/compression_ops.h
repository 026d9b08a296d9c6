// The Gram matrix of coils on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/mri/coils/compression.h"

namespace echotrain::numerics {

// clang-format off
ECHOTRAIN_BACKENDS(
void add_coil_gram(Context& context, DeviceView<const cfloat> data, std::int64_t first, std::int64_t last,
                   DeviceView<cdouble> gram);
)
// clang-format on

}  // namespace echotrain::numerics
