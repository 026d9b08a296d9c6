#include "gadgets/images/kspace/partial_fourier_gadget.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/transforms/partial/partial_fourier.h"
#include "gadgets/numerics/transforms/partial/window.h"
#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {
namespace {

using numerics::AcquiredBox;
constexpr std::array<const char*, 3> kAxes{"z", "y", "x"};
constexpr std::int64_t kFewestSymmetric = 8;  // auto: lines on the short side that tell the phase
// auto: iterations where the known lines are predicted well, and where they are not. There each iteration makes edges
// narrower, and the error that a wrong phase makes larger: after three, some images are worse than zero-filled ones
// (tests/bench/cartesian/measured_partial_fourier.py).
constexpr int kAutoIterations = 4, kFewIterations = 2;
constexpr double kPredictedWell = 0.35;  // the most error of known lines

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

/// True if an axis whose encoded matrix takes so many points lacks at least this part of them on one side.
bool lacks(const numerics::OneSided& side, double points, double least) {
  return side.one_sided && static_cast<double>(side.missing) >= least * points;
}
/// auto leaves the rows that a lattice of lines ends before.
double least_of(const PartialFourier::Options& options) {
  return options.method == "auto" ? std::max(options.least, 1.0 / 16) : options.least;
}

}  // namespace

/// The parts of k-space [coil, z, y, x] to fill.
struct PartialFourier::Filling {
  AcquiredBox box;            // for axes that are not filled: all
  AcquiredBox filled;         // the box after filling
  std::array<bool, 3> cut{};  // axes to fill
  std::size_t worst = 3;      // the axis that lacks most; 3: none
  std::string note;           // note for the image's meta attributes
  std::string left;           // auto: the axes that stay as they are though they lack something, and why

  std::int64_t cut_axes() const { return std::count(cut.begin(), cut.end(), true); }
  bool says_something() const { return worst < 3 || !left.empty(); }
};

namespace {

using Filling = PartialFourier::Filling;

/// `box`: the acquired part; n: extents [z, y, x]; encoded: how many of these points the encoded matrix takes. Warns of
/// axes of which too little came.
Filling filling_of(const PartialFourier::Options& options, const AcquiredBox& box, const std::array<std::int64_t, 3>& n,
                   const std::array<double, 3>& encoded, Scan& scan) {
  const bool automatic = options.method == "auto";
  Filling out{.box = box, .filled = box, .note = automatic ? "pocs" : options.method};
  double most_missing = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    const numerics::OneSided side = numerics::one_sided(n[a], box.first[a], box.last[a]);
    const double points = encoded[a];
    constexpr double kNarrowest = 1.0 / 16;
    const bool lacking = lacks(side, points, least_of(options));
    const double fewest = automatic ? static_cast<double>(kFewestSymmetric) : kNarrowest * points;
    const double share = static_cast<double>(box.last[a] - box.first[a]) / points;
    out.cut[a] = lacking && static_cast<double>(side.band) >= fewest;
    if (!out.cut[a]) {  // its missing part stays zero
      if (lacking) {
        if (automatic)
          out.left +=
              fmt::format(", {} {:.3g}: {} symmetric lines", kAxes[a], share, std::max<std::int64_t>(side.band, 0));
        scan.warn(
            fmt::format("partial_fourier: on axis {} only {} of {} points came on the short side of the centre; it "
                        "stays zero-filled",
                        kAxes[a], std::max<std::int64_t>(side.band, 0), std::llround(points)));
      }
      out.box.first[a] = 0;
      out.box.last[a] = n[a];
      continue;
    }
    out.note += fmt::format(", {} {:.3g}", kAxes[a], share);
    // The box extends to the point opposite to the outermost one, as far as the matrix has it.
    out.filled.first[a] = std::max<std::int64_t>(std::min(box.first[a], 2 * (n[a] / 2) - (box.last[a] - 1)), 0);
    out.filled.last[a] = std::min(std::max(box.last[a], 2 * (n[a] / 2) - box.first[a] + 1), n[a]);
    if (const double missing = static_cast<double>(side.missing) / points; missing > most_missing) {
      most_missing = missing;
      out.worst = a;
    }
  }
  return out;
}

/// 1 inside the box and 0 outside, for each axis that is filled.
std::array<std::vector<float>, 3> inside(const Filling& filling, const AcquiredBox& box, const numerics::Shape& n) {
  std::array<std::vector<float>, 3> out;
  for (std::size_t a = 0; a < 3; ++a)
    for (std::int64_t i = 0; filling.cut[a] && i < n[a + 1]; ++i)
      out[a].push_back(i >= box.first[a] && i < box.last[a] ? 1.0f : 0.0f);
  return out;
}

/// The box without the outer half of what came on each short side.
AcquiredBox narrowed(const Filling& filling, const numerics::Shape& n) {
  AcquiredBox out = filling.box;
  for (std::size_t a = 0; a < 3; ++a) {
    if (!filling.cut[a]) continue;
    const std::int64_t center = n[a + 1] / 2, band = numerics::one_sided(n[a + 1], out.first[a], out.last[a]).band;
    if (center - out.first[a] == band)
      out.first[a] = center - band / 2;
    else
      out.last[a] = center + band / 2 + 1;
  }
  return out;
}

/// How wrong the method is about points that did come: those that narrowed() leaves out are filled from the rest, and
/// the error's energy is given as a part of their own, so that zeros have 1. Waits for the device.
double error_of_known(numerics::Context& compute, const Filling& filling, numerics::DeviceView<const cfloat> kspace) {
  const numerics::Shape& n = kspace.shape();
  const AcquiredBox box = narrowed(filling, n);
  Array<cfloat> trial = compute.allocate<cfloat>(n);
  compute.copy(kspace, trial.view());
  numerics::multiply_axes(compute, trial.view(), inside(filling, box, n));
  const double with_zeros = numerics::compare(compute, trial.cview(), kspace).error_power;
  numerics::pocs(compute, trial.view(), box, kAutoIterations);
  numerics::multiply_axes(compute, trial.view(), inside(filling, filling.box, n));
  const double error = numerics::compare(compute, trial.cview(), kspace).error_power;
  return with_zeros > 0 ? error / with_zeros : 0;
}

}  // namespace

Parameters<PartialFourier::Options> PartialFourier::parameters() {
  return Parameters<Options>()
      .choice("method", &Options::method, {"zero_fill", "homodyne", "pocs", "auto"},
              "zero_fill: what is missing stays zero. homodyne: the acquired side counts twice, and the phase of the "
              "middle is taken out and put back; one axis, a second one by pocs. pocs: projections that keep what was "
              "acquired and impose the phase. auto: pocs, but zero_fill, with a warning, where fewer than 8 lines came "
              "on the short side or the phase is rough")
      .integer("iterations", &Options::iterations, 1, 100, "pocs only; more than one rarely helps")
      .integer("transition", &Options::transition, 0, 32,
               "pocs only; filled values fade out over so many points inside the acquired side's edge")
      .unit("samples")
      .number("least", &Options::least, 0.01, 0.5,
              "an axis that lacks less than this part of its points stays as it is");
}

/// Fills k-space [coil, z, y, x], 0 outside the box. Returns the notes.
std::map<std::string, std::string> PartialFourier::fill(FrameKey key, const Filling& filling,
                                                        numerics::DeviceView<cfloat> kspace) {
  numerics::Context& compute = scan_->compute;
  const bool homodyne = options_.method == "homodyne", automatic = options_.method == "auto";
  const std::string left = filling.left.empty() ? "" : "zero_fill" + filling.left;
  if (filling.worst == 3) return {{"partial_fourier", left}};
  std::map<std::string, std::string> notes{{"partial_fourier", filling.note + (left.empty() ? "" : "; " + left)}};
  AcquiredBox box = filling.box;
  int iterations = static_cast<int>(options_.iterations);
  if (automatic) {
    key.phase = key.repetition = 0;
    auto known = errors_.find(key);
    if (known == errors_.end()) known = errors_.emplace(key, error_of_known(compute, filling, kspace)).first;
    notes["partial_fourier_error"] = fmt::format("{:.3g}", known->second);
    if (!(known->second < 1)) {
      scan_->warn(
          "partial_fourier: the phase is too rough, as predictions of lines that came are worse than zeros; the image "
          "stays zero-filled");
      notes["partial_fourier"] = fmt::format("zero_fill, rough phase ({})", notes["partial_fourier"]);
      return notes;
    }
    iterations = known->second < kPredictedWell ? kAutoIterations : kFewIterations;
  }
  if (homodyne) {
    numerics::homodyne(compute, kspace, box, static_cast<int>(filling.worst));
    box.first[filling.worst] = 0;
    box.last[filling.worst] = kspace.shape()[filling.worst + 1];
  }
  // After homodyne detection of the only axis, nothing is left to fill.
  numerics::pocs(compute, kspace, box, homodyne ? 1 : iterations, homodyne || automatic ? 0 : options_.transition);
  return notes;
}

void PartialFourier::process(KSpace&& kspace, const Emit<KSpace>& emit) {
  if (options_.method == "zero_fill") return emit(std::move(kspace));
  if (!kspace.lines)
    throw ClientError("partial_fourier: the gadget before it does not say which lines of k-space were acquired");
  const SampledLines& lines = *kspace.lines;
  AcquiredBox box;
  box.first = {lines.first[1], lines.first[0], lines.first_x};
  box.last = {lines.last[1] + 1, lines.last[0] + 1, lines.last_x};
  const auto& n = kspace.data.shape();
  const std::array encoded{static_cast<double>(n[1]), static_cast<double>(n[2]), static_cast<double>(n[3])};
  const auto is_lacking = [&](std::size_t a) {
    return lacks(numerics::one_sided(n[a + 1], box.first[a], box.last[a]), encoded[a], least_of(options_));
  };
  // Elliptic scans have gaps at their corners, and lack no side.
  if (options_.method == "auto" && !is_lacking(0) && !is_lacking(1) && !is_lacking(2)) return emit(std::move(kspace));
  if (!has_no_gap(lines)) {
    scan_->warn("partial_fourier: lines are missing in between; such frames stay as they are");
    return emit(std::move(kspace));
  }
  if (lines.rows_differ) {  // samples that only some rows have would count as missing, and be lost
    scan_->warn("partial_fourier: lines have different parts of their samples; such frames stay as they are");
    return emit(std::move(kspace));
  }
  const Filling filling = filling_of(options_, box, {n[1], n[2], n[3]}, encoded, *scan_);
  if (!filling.says_something()) return emit(std::move(kspace));
  const auto notes = fill(kspace.frame->key, filling, kspace.data.view());
  kspace.frame = with_notes(*kspace.frame, notes);
  if (notes.at("partial_fourier").starts_with("zero_fill")) return emit(std::move(kspace));
  kspace.image_noise = 0;
  // Where pocs fills two axes, their corners stay 0: the points opposite to these were not acquired either.
  if (filling.cut_axes() - (options_.method == "homodyne" ? 1 : 0) <= 1)
    kspace.lines = filled_lines(lines, filling.filled);
  emit(std::move(kspace));
}

std::optional<KSpaceChange> PartialFourier::change_of(const CoilImages& images, const AcquiredExtent& extent) {
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
  for (const char* joined_by : {"grappa", "sense"}) {
    const auto how = frame.notes.find(joined_by);
    if (how == frame.notes.end() || how->second != "transform") continue;
    scan_->info("partial_fourier: a root of the sum of squares has no phase, and stays as it is");
    return std::nullopt;
  }
  const auto& s = images.data.shape();  // [coil, z, y, x]
  const std::array<std::int64_t, 3> n{s[1], s[2], s[3]};
  const auto ranges = extent.of(frame);
  AcquiredBox box;
  std::array<double, 3> encoded{};
  for (std::size_t a = 0; a < 3; ++a) {
    box.first[a] = 0;
    box.last[a] = n[a];
    encoded[a] = ranges[a] ? ranges[a]->points : static_cast<double>(n[a]);
    if (!ranges[a]) continue;
    constexpr double kRounding = 0.01;  // rounding of float32 numbers
    const auto center = static_cast<double>(n[a] / 2);
    box.first[a] =
        std::clamp<std::int64_t>(std::llround(std::ceil(center + ranges[a]->first - kRounding)), 0, n[a] - 1);
    box.last[a] = std::clamp<std::int64_t>(std::llround(std::floor(center + ranges[a]->last + kRounding)) + 1,
                                           box.first[a] + 1, n[a]);
  }
  const Filling filling = filling_of(options_, box, n, encoded, *scan_);
  if (!filling.says_something()) return std::nullopt;
  // The methods need zeros where nothing was acquired; solvers, and the cut of a field of view, leave other values.
  return [this, filling, key = frame.key](numerics::DeviceView<cfloat> kspace) {
    numerics::multiply_axes(scan_->compute, kspace, inside(filling, filling.box, kspace.shape()));
    return fill(key, filling, kspace);
  };
}

}  // namespace echotrain
