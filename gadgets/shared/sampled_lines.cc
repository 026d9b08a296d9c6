#include "gadgets/shared/sampled_lines.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "gadgets/shared/lattice_count.h"

namespace echotrain {
namespace {

/// A lattice that may fit the rows.
struct Candidate {
  std::array<std::int64_t, 2> step, origin{};  // y, z
  std::int64_t shift = 0;

  bool contains(std::int64_t y, std::int64_t z) const {
    if ((z - origin[1]) % step[1] != 0 || z < origin[1]) return false;
    const std::int64_t plane = (z - origin[1]) / step[1];
    return ((y - origin[0] - plane * shift) % step[0] + step[0]) % step[0] == 0;
  }
};

using Rows = std::array<std::int64_t, 2>;  // y, z

/// The announced steps, or 1 where they are invalid.
Rows steps_of(const SampledLines& lines, const std::array<std::uint16_t, 2>& announced) {
  const Rows step{lines.extents[1] > 1 ? announced[0] : std::int64_t{1},
                  lines.extents[0] > 1 ? announced[1] : std::int64_t{1}};
  return std::max(step[0], step[1]) <= LineLattice::kMostSteps ? step : Rows{1, 1};
}

template <class Run>
void for_rows(const SampledLines& lines, const Rows& first, const Rows& last, Run&& run) {
  const std::int64_t ny = lines.extents[1];
  for (std::int64_t z = first[1]; z <= last[1]; ++z)
    for (std::int64_t y = first[0]; y <= last[0]; ++y) run(y, z, lines.came[static_cast<std::size_t>(z * ny + y)] != 0);
}

std::int64_t most(const std::vector<std::int64_t>& votes) {
  return std::max_element(votes.begin(), votes.end()) - votes.begin();
}

/// The origin and shift that most rows agree with; among equals the least.
Candidate best(const SampledLines& lines, const Rows& step) {
  Candidate found{step};
  if (step == Rows{1, 1}) return found;  // the lattice has all rows
  std::vector<std::int64_t> planes(static_cast<std::size_t>(step[1]));
  for_rows(lines, lines.first, lines.last, [&](std::int64_t, std::int64_t z, bool came) {
    if (came) ++planes[static_cast<std::size_t>(z % step[1])];
  });
  found.origin[1] = most(planes);
  const std::int64_t shifts = lines.extents[0] > step[1] ? step[0] : 1;  // a single plane shows no shift
  std::int64_t agree = -1;
  for (std::int64_t shift = 0; shift < shifts; ++shift) {
    std::vector<std::int64_t> votes(static_cast<std::size_t>(step[0]));
    for_rows(lines, lines.first, lines.last, [&](std::int64_t y, std::int64_t z, bool came) {
      if (!came || z % step[1] != found.origin[1]) return;
      const std::int64_t moved = y - (z - found.origin[1]) / step[1] * shift;
      ++votes[static_cast<std::size_t>((moved % step[0] + step[0]) % step[0])];
    });
    const std::int64_t origin = most(votes);
    if (votes[static_cast<std::size_t>(origin)] <= agree) continue;
    agree = votes[static_cast<std::size_t>(origin)];
    found.origin[0] = origin;
    found.shift = shift;
  }
  return found;
}

}  // namespace

SampledLines sampled_lines(std::vector<std::uint8_t> came, std::int64_t ny, std::int64_t nz,
                           const std::array<std::uint16_t, 2>& announced) {
  SampledLines out;
  out.extents = {nz, ny};
  out.came = std::move(came);
  out.first = {ny, nz};
  out.last = {-1, -1};
  for (std::int64_t row = 0; row < ny * nz; ++row) {
    if (out.came[static_cast<std::size_t>(row)] == 0) continue;
    out.first = {std::min(out.first[0], row % ny), std::min(out.first[1], row / ny)};
    out.last = {std::max(out.last[0], row % ny), std::max(out.last[1], row / ny)};
  }
  if (out.last[0] < 0) {
    out.first = out.last = {};
    return out;
  }
  const Rows step = steps_of(out, announced);
  if (step == Rows{1, 1} && (announced[0] > LineLattice::kMostSteps || announced[1] > LineLattice::kMostSteps))
    return out;
  const Candidate found = best(out, step);
  bool whole = true;
  for_rows(out, out.first, out.last,
           [&](std::int64_t y, std::int64_t z, bool here) { whole = whole && (here || !found.contains(y, z)); });
  if (!whole) return out;
  out.lattice = true;
  out.step = step;
  out.origin = found.origin;
  out.shift = found.shift;
  return out;
}

std::vector<std::int64_t> missing_rows(const SampledLines& lines, const std::array<std::uint16_t, 2>& announced,
                                       const Rows& first, const Rows& last) {
  const Candidate asked = best(lines, steps_of(lines, announced));
  std::vector<std::int64_t> out;
  for_rows(lines, first, last, [&](std::int64_t y, std::int64_t z, bool came) {
    if (!came && asked.contains(y, z)) out.push_back(z * lines.extents[1] + y);
  });
  return out;
}

}  // namespace echotrain
