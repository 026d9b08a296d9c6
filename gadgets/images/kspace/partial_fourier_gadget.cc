#include "gadgets/images/kspace/partial_fourier_gadget.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "gadgets/numerics/transforms/partial/partial_fourier.h"
#include "gadgets/numerics/transforms/partial/window.h"
#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {
namespace {

using numerics::AcquiredBox;
constexpr std::array<const char*, 3> kAxes{"z", "y", "x"};

/// True if all rows between the outermost ones came.
bool has_no_gap(const SampledLines& lines) {
  return lines.count() == (lines.last[0] - lines.first[0] + 1) * (lines.last[1] - lines.first[1] + 1);
}

/// The rows and samples once the box has been filled.
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

/// The parts of k-space [coil, z, y, x] to fill.
struct Filling {
  AcquiredBox box;            // for axes that are not filled: all
  AcquiredBox filled;         // the box after filling
  std::array<bool, 3> cut{};  // axes to fill
  std::size_t worst = 3;      // the axis that lacks most; 3: none
  std::string note;           // note for the image's meta attributes

  std::int64_t cut_axes() const { return std::count(cut.begin(), cut.end(), true); }
};

/// `box`: the acquired part; n: extents [z, y, x]. Warns of axes of which too little came.
Filling filling_of(const PartialFourier::Options& options, const AcquiredBox& box, const std::array<std::int64_t, 3>& n,
                   Scan& scan) {
  Filling out{.box = box, .filled = box, .note = options.method};
  std::int64_t most_missing = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    const numerics::OneSided side = numerics::one_sided(n[a], box.first[a], box.last[a]);
    const auto points = static_cast<double>(n[a]);
    constexpr double kNarrowest = 1.0 / 16;
    const bool lacks = side.one_sided && static_cast<double>(side.missing) >= options.least * points;
    out.cut[a] = lacks && static_cast<double>(side.band) >= kNarrowest * points;
    if (!out.cut[a]) {  // its missing part stays zero
      if (lacks)
        scan.warn(
            fmt::format("partial_fourier: on axis {} only {} of {} points came on the short side of the centre; it "
                        "stays zero-filled",
                        kAxes[a], std::max<std::int64_t>(side.band, 0), n[a]));
      out.box.first[a] = 0;
      out.box.last[a] = n[a];
      continue;
    }
    out.note += fmt::format(", {} {:.3g}", kAxes[a], static_cast<double>(box.last[a] - box.first[a]) / points);
    // The box extends to the point opposite to the outermost one, as far as the matrix has it.
    out.filled.first[a] = std::max<std::int64_t>(std::min(box.first[a], 2 * (n[a] / 2) - (box.last[a] - 1)), 0);
    out.filled.last[a] = std::min(std::max(box.last[a], 2 * (n[a] / 2) - box.first[a] + 1), n[a]);
    if (side.missing * (out.worst < 3 ? n[out.worst] : 1) > most_missing * n[a]) {
      most_missing = side.missing;
      out.worst = a;
    }
  }
  return out;
}

/// Fills k-space [coil, z, y, x], 0 outside the box.
void fill(numerics::Context& compute, const PartialFourier::Options& options, const Filling& filling,
          numerics::DeviceView<cfloat> kspace) {
  AcquiredBox box = filling.box;
  const bool homodyne = options.method == "homodyne";
  if (homodyne) {
    numerics::homodyne(compute, kspace, box, static_cast<int>(filling.worst));
    box.first[filling.worst] = 0;
    box.last[filling.worst] = kspace.shape()[filling.worst + 1];
  }
  // After homodyne detection of the only axis, nothing is left to fill.
  numerics::pocs(compute, kspace, box, homodyne ? 1 : static_cast<int>(options.iterations),
                 homodyne ? 0 : options.transition);
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
  if (lines.rows_differ) {  // samples that only some rows have would count as missing, and be lost
    scan_->warn("partial_fourier: lines have different parts of their samples; such frames stay as they are");
    return emit(std::move(kspace));
  }
  AcquiredBox box;
  box.first = {lines.first[1], lines.first[0], lines.first_x};
  box.last = {lines.last[1] + 1, lines.last[0] + 1, lines.last_x};
  const auto& n = kspace.data.shape();
  const Filling filling = filling_of(options_, box, {n[1], n[2], n[3]}, *scan_);
  if (filling.worst == 3) return emit(std::move(kspace));
  fill(scan_->compute, options_, filling, kspace.data.view());
  kspace.frame = with_notes(*kspace.frame, {{"partial_fourier", filling.note}});
  // Where pocs fills two axes, their corners stay 0: the points opposite to these were not acquired either.
  if (filling.cut_axes() - (options_.method == "homodyne" ? 1 : 0) <= 1)
    kspace.lines = filled_lines(lines, filling.filled);
  emit(std::move(kspace));
}

std::optional<KSpaceChange> PartialFourier::change_of(const CoilImages& images, const AcquiredExtent& extent) const {
  const Frame& frame = *images.frame;
  if (options_.method == "zero_fill" || has_own_unit(frame) || frame.notes.contains("partial_fourier"))
    return std::nullopt;
  if (!frame.acquired && frame.source) {
    scan_->warn(
        "partial_fourier completes complex images of a scan whose header has one encoding and says, by its limits, "
        "what was acquired; other images stay as they are");
    return std::nullopt;
  }
  if (!frame.acquired) {
    if (!frame.notes.contains("missing_lines"))  // not a Cartesian frame
      throw ClientError("partial_fourier: the image does not say which part of Cartesian k-space was acquired");
    scan_->warn("partial_fourier: a frame without usable lines stays as it is");
    return std::nullopt;
  }
  const auto& s = images.data.shape();  // [coil, z, y, x]
  const std::array<std::int64_t, 3> n{s[1], s[2], s[3]};
  const auto ranges = extent.of(frame);
  AcquiredBox box;
  for (std::size_t a = 0; a < 3; ++a) {
    box.first[a] = 0;
    box.last[a] = n[a];
    if (!ranges[a]) continue;
    constexpr double kRounding = 0.01;  // rounding of float32 numbers
    const auto center = static_cast<double>(n[a] / 2);
    box.first[a] =
        std::clamp<std::int64_t>(std::llround(std::ceil(center + ranges[a]->first - kRounding)), 0, n[a] - 1);
    box.last[a] = std::clamp<std::int64_t>(std::llround(std::floor(center + ranges[a]->last + kRounding)) + 1,
                                           box.first[a] + 1, n[a]);
  }
  const Filling filling = filling_of(options_, box, n, *scan_);
  if (filling.worst == 3) return std::nullopt;
  // The methods need zeros where nothing was acquired; solvers, and the cut of a field of view, leave other values.
  std::array<std::vector<float>, 3> acquired;
  for (std::size_t a = 0; a < 3; ++a)
    for (std::int64_t i = 0; filling.cut[a] && i < n[a]; ++i)
      acquired[a].push_back(i >= box.first[a] && i < box.last[a] ? 1.0f : 0.0f);
  return KSpaceChange{[this, filling, acquired](numerics::DeviceView<cfloat> kspace) {
                        numerics::multiply_axes(scan_->compute, kspace, acquired);
                        fill(scan_->compute, options_, filling, kspace);
                      },
                      {{"partial_fourier", filling.note}}};
}

}  // namespace echotrain
