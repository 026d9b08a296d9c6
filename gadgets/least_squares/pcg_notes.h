// Notes and warnings about the solution of a frame's equations.
#pragma once

#include <optional>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/inverse/solver/pcg.h"

namespace echotrain {

/// The results of solving, besides the image. discrepancy: set where it chose lambda.
struct Solved {
  numerics::PcgResult result;
  std::optional<numerics::DiscrepancyResult> discrepancy;
};

/// Throws ClientError: the data, or sums of them, are not finite.
[[noreturn]] void refuse_numbers();

/// Notes the outcome; among several images, the worst one.
void note(Scan& scan, NormalEquations& equations, const numerics::PcgResult& result);
void note(Scan& scan, NormalEquations& equations, const Solved& solved);

}  // namespace echotrain
