// Common parts of both proximal methods, ADMM and FISTA.
#pragma once

#include "gadgets/numerics/inverse/proximal/proximal_solver.h"

namespace echotrain::numerics {

/// y = A x for all frames.
void apply_matrices(Context& context, const ProximalProblem& problem, DeviceView<const cfloat> x, DeviceView<cfloat> y);

/// An iteration and its state. step() replaces x, and returns false where numbers have overflowed and x is of no use.
class ProximalIteration {
 public:
  virtual ~ProximalIteration() = default;
  virtual bool step(DeviceView<cfloat> x) = 0;
};

}  // namespace echotrain::numerics
