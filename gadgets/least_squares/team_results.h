// The exchange of results between the processes of a team that solve equations together.
#pragma once

#include <cstdint>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/numerics/core/team/team.h"
#include "gadgets/numerics/inverse/solver/pcg.h"

namespace echotrain {

/// Returns the `value` of the team's first process to all.
double known_to_all(numerics::Team& team, double value);

/// Gives each process's results to all. image: [image, z, y, x], where `compute` computes. voxels: number per image if
/// each process solved some of the images; else 0.
void share_results(numerics::Team& team, numerics::Context& compute, std::vector<numerics::PcgResult>& results,
                   std::int64_t voxels, Array<cfloat>& image);

}  // namespace echotrain
