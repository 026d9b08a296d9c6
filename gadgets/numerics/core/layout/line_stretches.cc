#include "gadgets/numerics/core/layout/line_stretches.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace echotrain::numerics {

std::vector<std::int64_t> line_stretches(HostView<const std::int32_t> lines, std::size_t most) {
  std::vector<std::int64_t> by_line(static_cast<std::size_t>(lines.size()));
  std::iota(by_line.begin(), by_line.end(), std::int64_t{0});
  std::sort(by_line.begin(), by_line.end(),
            [&](std::int64_t a, std::int64_t b) { return std::pair(lines[a], a) < std::pair(lines[b], b); });
  std::vector<std::int64_t> before(by_line.size(), -1);  // the previous readout of the same line
  for (std::size_t n = 1; n < by_line.size(); ++n)
    if (lines[by_line[n]] == lines[by_line[n - 1]]) before[static_cast<std::size_t>(by_line[n])] = by_line[n - 1];
  std::vector<std::int64_t> ends;
  std::int64_t begin = 0;
  for (std::int64_t r = 0; r < lines.size(); ++r) {
    if (lines[r] < 0 || before[static_cast<std::size_t>(r)] < begin) continue;
    if (ends.size() + 2 > most) return {};  // this end and the last one
    ends.push_back(begin = r);
  }
  ends.push_back(lines.size());
  return ends;
}

}  // namespace echotrain::numerics
