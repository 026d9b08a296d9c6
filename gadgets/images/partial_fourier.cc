#include "gadgets/images/partial_fourier.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "gadgets/numerics/partial/partial_fourier.h"

namespace echotrain {
namespace {

using numerics::AcquiredBox;
constexpr std::array<const char*, 3> kAxes{"z", "y", "x"};

/// Whether all rows between the outermost ones came.
bool has_no_gap(const SampledLines& lines) {
  return lines.count() == (lines.last[0] - lines.first[0] + 1) * (lines.last[1] - lines.first[1] + 1);
}

/// Rows and samples once the box has been filled.
std::shared_ptr<const SampledLines> filled_lines(const SampledLines& lines, const AcquiredBox& box) {
  auto filled = std::make_shared<SampledLines>(lines);
  filled->first = {box.first[1], box.first[0]};
  filled->last = {box.last[1] - 1, box.last[0] - 1};
  filled->first_x = box.first[2];
  filled->last_x = box.last[2];
  for (std::int64_t z = box.first[0]; z < box.last[0]; ++z)
    for (std::int64_t y = box.first[1]; y < box.last[1]; ++y)
      filled->came[static_cast<std::size_t>(z * lines.extents[1] + y)] = 1;
  return filled;
}

}  // namespace

Parameters<PartialFourier::Options> PartialFourier::parameters() {
  return Parameters<Options>()
      .choice("method", &Options::method, {"zero_fill", "homodyne", "pocs"},
              "zero_fill: what is missing stays zero. homodyne: the acquired side counts twice, and the phase of the "
              "middle is taken out and put back; one axis, a second one by pocs. pocs: projections that keep what was "
              "acquired and impose the phase")
      .integer("iterations", &Options::iterations, 1, 100, "pocs only; more than one rarely helps")
      .integer("transition", &Options::transition, 0, 32,
               "pocs only; filled values fade out over so many points inside the acquired side's edge")
      .unit("samples")
      .number("least", &Options::least, 0.01, 0.5,
              "an axis that lacks less than this part of its points stays as it is");
}

void PartialFourier::process(KSpace&& kspace, const Emit<KSpace>& emit) {
  if (options_.method == "zero_fill") return emit(std::move(kspace));
  if (!kspace.lines)
    throw ClientError("partial_fourier: the gadget before it does not say which lines of k-space were acquired");
  const SampledLines& lines = *kspace.lines;
  if (!has_no_gap(lines)) {
    scan_->warn("partial_fourier: lines are missing in between; such frames stay as they are");
    return emit(std::move(kspace));
  }
  if (lines.rows_differ) {  // what only some of them have would be taken for missing, and lost
    scan_->warn("partial_fourier: lines have different parts of their samples; such frames stay as they are");
    return emit(std::move(kspace));
  }
  AcquiredBox box;
  box.first = {lines.first[1], lines.first[0], lines.first_x};
  box.last = {lines.last[1] + 1, lines.last[0] + 1, lines.last_x};
  AcquiredBox filled = box;
  std::string note = options_.method;
  std::int64_t most_missing = 0;
  std::size_t worst = 3;
  int cut_axes = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t n = kspace.data.shape()[a + 1];
    const numerics::OneSided side = numerics::one_sided(n, box.first[a], box.last[a]);
    const auto points = static_cast<double>(n);
    if (!side.one_sided || static_cast<double>(side.missing) < options_.least * points) {
      box.first[a] = 0;  // what was not acquired of it stays zero
      box.last[a] = n;
      continue;
    }
    constexpr double kNarrowest = 1.0 / 16;
    if (static_cast<double>(side.band) < kNarrowest * points) {
      scan_->warn(
          fmt::format("partial_fourier: on axis {} only {} of {} points came on the short side of the centre; it "
                      "stays zero-filled",
                      kAxes[a], std::max<std::int64_t>(side.band, 0), n));
      box.first[a] = 0;
      box.last[a] = n;
      continue;
    }
    ++cut_axes;
    note += fmt::format(", {} {:.3g}", kAxes[a], static_cast<double>(box.last[a] - box.first[a]) / points);
    // The point opposite to the outermost one, as far as the matrix has it.
    filled.first[a] = std::max<std::int64_t>(std::min(box.first[a], 2 * (n / 2) - (box.last[a] - 1)), 0);
    filled.last[a] = std::min(std::max(box.last[a], 2 * (n / 2) - box.first[a] + 1), n);
    if (side.missing * (worst < 3 ? kspace.data.shape()[worst + 1] : 1) > most_missing * n) {
      most_missing = side.missing;
      worst = a;
    }
  }
  if (worst == 3) return emit(std::move(kspace));
  const bool homodyne = options_.method == "homodyne";
  if (homodyne) {
    numerics::homodyne(scan_->compute, kspace.data.view(), box, static_cast<int>(worst));
    box.first[worst] = 0;
    box.last[worst] = kspace.data.shape()[worst + 1];
  }
  // After homodyne detection of the only axis, nothing is left to fill.
  numerics::pocs(scan_->compute, kspace.data.view(), box, homodyne ? 1 : static_cast<int>(options_.iterations),
                 homodyne ? 0 : options_.transition);
  kspace.frame = with_notes(*kspace.frame, {{"partial_fourier", note}});
  // Where pocs fills two axes, their corners stay 0: the points opposite to these were not acquired either.
  if (cut_axes - (homodyne ? 1 : 0) <= 1) kspace.lines = filled_lines(lines, filled);
  emit(std::move(kspace));
}

}  // namespace echotrain
