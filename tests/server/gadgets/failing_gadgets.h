// A failing gadget shows what the server does then.
#pragma once

#include <cstdint>

#include "gadgets/api/registry.h"

namespace echotrain::server {

/// The bytes that `hoarder` takes at its first readout.
constexpr std::int64_t kHoardedBytes = 12 << 20;

/// All gadgets, and these: `broken` has a bug ("the matrix is singular"), `hoarder` keeps kHoardedBytes, `killer`
/// loses its GPU, and `failing` fails there; each at its first readout.
const Registry& failing_registry();

}  // namespace echotrain::server
