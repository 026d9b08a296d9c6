// What makes later scans faster, and is done while no scan runs.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "gadgets/numerics/core/resources.h"

namespace echotrain {

/// Does the next thing: tries out how to cut NUFFTs of a kind that scans have asked for (numerics/nufft/tuning.h), or
/// makes kept plans anew that were made before that was known. Says what, for logs; none: nothing is left to do, or
/// `stop` was requested, and it will be done next time. A trial takes up to half a second, a plan what it took its
/// scan; both have all threads of the resources, and end some 10 ms after a stop. Does nothing where the resources turn
/// tuning off.
std::optional<std::string> tune_while_idle(const std::shared_ptr<numerics::Resources>& resources,
                                           const std::stop_token& stop);

}  // namespace echotrain
