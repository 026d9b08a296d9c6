// What both proximal methods are made of.
#pragma once

#include "gadgets/numerics/proximal/proximal_solver.h"

namespace echotrain::numerics {

/// y = A x of all frames.
void apply_matrices(Context& context, const ProximalProblem& problem, DeviceView<const cfloat> x, DeviceView<cfloat> y);

/// An iteration with what it remembers. step() replaces x, and returns false where numbers have overflowed and x is of
/// no use.
class ProximalIteration {
 public:
  virtual ~ProximalIteration() = default;
  virtual bool step(DeviceView<cfloat> x) = 0;
};

}  // namespace echotrain::numerics
