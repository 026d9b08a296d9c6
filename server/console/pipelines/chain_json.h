// A checked chain of gadgets is written as JSON, for those who draw it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "gadgets/api/registry.h"
#include "gadgets/engine/chain/chain_plan.h"

namespace echotrain::server {

/// Returns {"entrance": "Readouts", "steps": [...], "as_one": [...]}: steps are gadgets, with what they take and give
/// and with their parameters as the registry declares them and as the file sets them, and branches, each with its own
/// chain.
nlohmann::ordered_json chain_json(const ChainPlan& chain, const Registry& registry);

}  // namespace echotrain::server
