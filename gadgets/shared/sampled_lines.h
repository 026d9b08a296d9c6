// The lattice that the acquired rows of Cartesian k-space form.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "gadgets/api/items.h"

namespace echotrain {

/// Describes the rows that came (`came`: [z, y]), where the header announces steps of y and z. The lattice's origin
/// and, in volumes, its shift from plane to plane are those that most rows agree with; rows between its own, such as
/// reference lines, are ignored. `lattice` is false where one of its points between the outermost rows is missing, and
/// for steps above LineLattice::kMostSteps. `first_x` and `last_x` stay 0.
SampledLines sampled_lines(std::vector<std::uint8_t> came, std::int64_t ny, std::int64_t nz,
                           const std::array<std::uint16_t, 2>& announced);

/// The rows (z * ny + y, in order) that are missing at points of the lattice: from the rows `first` to `last` (y, z;
/// inclusive), by the lattice that most rows agree with, whole or not. Without announced steps, and for steps above
/// LineLattice::kMostSteps, every row is a point.
std::vector<std::int64_t> missing_rows(const SampledLines& lines, const std::array<std::uint16_t, 2>& announced,
                                       const std::array<std::int64_t, 2>& first,
                                       const std::array<std::int64_t, 2>& last);

}  // namespace echotrain
