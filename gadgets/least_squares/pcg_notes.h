// Reports how solving a frame's equations went, in notes of the frame and warnings of the scan.
#pragma once

#include <optional>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/solver/pcg.h"

namespace echotrain {

/// The results of solving, besides the image. discrepancy: set where it chose lambda.
struct Solved {
  numerics::PcgResult result;
  std::optional<numerics::DiscrepancyResult> discrepancy;
};

/// Throws ClientError: the data, or sums of them, are not finite.
[[noreturn]] void refuse_numbers();

/// Of several images, notes the worst.
void note(Scan& scan, NormalEquations& equations, const numerics::PcgResult& result);
void note(Scan& scan, NormalEquations& equations, const Solved& solved);

}  // namespace echotrain
