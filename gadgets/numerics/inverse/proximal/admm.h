// One iteration of ADMM, the alternating direction method of multipliers.
#pragma once

#include <memory>

#include "gadgets/numerics/inverse/proximal/proximal_parts.h"

namespace echotrain::numerics {

std::unique_ptr<ProximalIteration> make_admm(Context& context, const ProximalProblem& problem,
                                             const ProximalOptions& options, DeviceView<const cfloat> start);

}  // namespace echotrain::numerics
