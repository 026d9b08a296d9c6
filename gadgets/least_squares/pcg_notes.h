// What solving a frame's equations gave, as notes of the frame and warnings of the scan.
#pragma once

#include <optional>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/solver/pcg.h"

namespace echotrain {

/// What solving gave, beside the image. discrepancy: where it chose lambda.
struct Solved {
  numerics::PcgResult result;
  std::optional<numerics::DiscrepancyResult> discrepancy;
};

/// Refuses data that are not finite, or nearly so, by a ClientError.
[[noreturn]] void refuse_numbers();

/// Of several images, the one that is worst off is noted.
void note(Scan& scan, NormalEquations& equations, const numerics::PcgResult& result);
void note(Scan& scan, NormalEquations& equations, const Solved& solved);

}  // namespace echotrain
