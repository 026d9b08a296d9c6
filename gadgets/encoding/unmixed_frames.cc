#include "gadgets/encoding/unmixed_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gadgets/numerics/mri/coils/coil.h"
#include "gadgets/numerics/mri/coils/coil_maps.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/shared/lattice_count.h"
#include "gadgets/shared/sampled_lines.h"

namespace echotrain {
namespace {

std::shared_ptr<const Frame> of_series(const Frame& frame, std::uint16_t series) {
  auto changed = std::make_shared<Frame>(frame);
  changed->key.series = series;
  return changed;
}

}  // namespace

UnmixedOptions::UnmixedOptions() = default;

UnmixedFramesOptions::UnmixedFramesOptions(std::string_view gadget, const UnmixedOptions& options)
    : name(gadget),
      transform(options.otherwise == "transform"),
      g_factor(options.g_factor),
      snr_units(options.snr_units) {
  weights.noise = g_factor || snr_units;
}

void UnmixedFrames::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  weights_.start(scan);
  for (const auto& encoding : header.encodings) {
    Steps step = encoding.acceleration;
    for (std::size_t a = 0; a < 2; ++a)
      if (encoding.encoded.matrix[a + 1] == 1) step[a] = 1;  // no row can be left out
    const auto fits = [&](std::size_t a) {
      return step[a] <= 1 || (step[a] <= LineLattice::kMostSteps && step[a] < encoding.encoded.matrix[a + 1]);
    };
    std::string no_fit;
    if (!fits(0) || !fits(1))
      no_fit = fmt::format(
          "R={}x{} is announced for a matrix of {} lines and {} planes; steps are up to {}, and less than these",
          step[0], step[1], encoding.encoded.matrix[1], encoding.encoded.matrix[2], LineLattice::kMostSteps);
    if (!no_fit.empty() && !options_.transform) throw ClientError(options_.name + ": " + no_fit);
    no_fit_.push_back(no_fit);
    announced_.push_back(step);
  }
}

void UnmixedFrames::check(const HybridFrame& facts) const {
  if (!facts.lines)
    throw ClientError(
        fmt::format("{}: the gadget before it does not say which lines of k-space were acquired", options_.name));
  const auto& n = facts.geometry.encoded;
  if (static_cast<std::int64_t>(facts.lines->came.size()) != n[0] * n[1])
    throw ClientError(fmt::format("{}: the list of acquired lines is for another matrix", options_.name));
  if (facts.frame->notes.contains("filter"))
    throw ClientError(
        fmt::format("{0}: k-space was filtered, so its lines are not alike; put 'filter' after {0}", options_.name));
}

std::string UnmixedFrames::missing_lines(const SampledLines& lines, const Steps& announced) const {
  const std::vector<std::int64_t> rows = missing_rows(lines, announced, lines.first, lines.last);
  const std::int64_t ny = lines.extents[1];
  constexpr std::size_t kMostNamed = 8;
  std::string named;
  for (std::size_t i = 0; i < std::min(rows.size(), kMostNamed); ++i)
    named += fmt::format(
        "{}{}", i > 0 ? ", " : "",
        lines.extents[0] > 1 ? fmt::format("{} of plane {}", rows[i] % ny, rows[i] / ny) : std::to_string(rows[i]));
  if (rows.size() > kMostNamed) named += fmt::format(" and {} more", rows.size() - kMostNamed);
  return fmt::format(
      "R={}x{} is announced, but of the lines at these steps {} are missing; cartesian_sense takes lines in any order",
      announced[0], announced[1], named);
}

void UnmixedFrames::process(KSpace&& kspace, const Emit<CoilImages>& emit) {
  const auto& n = kspace.data.shape();
  const numerics::LineGeometry geometry{{n[1], n[2], n[3]}, kspace.padded, kspace.image, numerics::Direction::inverse};
  unmix({{kspace.frame, {}, geometry, kspace.lines, kspace.calibration}, kspace.data}, emit);
}

void UnmixedFrames::process(HybridFrame&& frame, const Emit<CoilImages>& emit) { unmix({std::move(frame), {}}, emit); }

void UnmixedFrames::prepare(const HybridFrame& expected) {
  const std::uint16_t encoding = expected.frame->key.encoding;
  const Steps& announced = announced_.at(encoding);
  const SampledLines& lines = *expected.lines;
  if ((announced[0] <= 1 && announced[1] <= 1) || !no_fit_.at(encoding).empty() || lines.first_x >= lines.last_x)
    return;
  weights_.prepare(*expected.calibration, lines, expected.geometry);
}

void UnmixedFrames::unmix(Acquired&& acquired, const Emit<CoilImages>& emit) {
  const HybridFrame& facts = acquired.facts;
  check(facts);
  const SampledLines& lines = *facts.lines;
  const Steps announced = announced_.at(facts.frame->key.encoding);
  if (announced[0] <= 1 && announced[1] <= 1)
    return refuse("R=1", "the header announces no acceleration", std::move(acquired), emit);
  if (lines.count() == 0 || lines.first_x >= lines.last_x)
    return refuse("no lines", "no lines came, or none that have samples in common", std::move(acquired), emit);
  if (const std::string& why = no_fit_.at(facts.frame->key.encoding); !why.empty())
    return refuse("lattice", why, std::move(acquired), emit);
  if (!lines.lattice) return refuse("lattice", missing_lines(lines, announced), std::move(acquired), emit);
  if (!facts.calibration)
    return refuse("calibration",
                  "there are no reference lines; send some (flags 20, 21), or the middle of k-space in full",
                  std::move(acquired), emit);
  const std::int64_t coils = acquired.coils(), of_reference = facts.calibration->data.shape()[0];
  if (coils != of_reference)
    throw ClientError(fmt::format("{}: slice {}: reference lines have {} coils, and lines of images have {}",
                                  options_.name, facts.frame->key.slice, of_reference, coils));
  const ParallelWeights::Found found = weights_.of(*facts.calibration, lines, facts.geometry);
  if (!found.weights->problem.empty()) return refuse("weights", found.weights->problem, std::move(acquired), emit);
  give(std::move(acquired), found, emit);
}

void UnmixedFrames::refuse(const char* kind, const std::string& why, Acquired&& acquired,
                           const Emit<CoilImages>& emit) {
  weights_.frame_refused();
  const bool accelerated = std::string_view(kind) != "R=1";
  const std::string text = fmt::format("{}: slice {}: {}; ", options_.name, acquired.facts.frame->key.slice, why);
  if (options_.transform) {
    if (told_.insert(kind).second) {
      if (accelerated)
        scan_->warn(text + "such frames are transformed as they are, and their images alias");
      else
        scan_->info(text + "its images are plain transforms");
    }
    return emit(plain_images(acquired));
  }
  ++scan_->numbers.frames_refused;
  if (told_.insert(kind).second)
    scan_->warn(text + (accelerated ? "such frames give no image" : "use cartesian_2d, or 'otherwise: transform'"));
}

/// Makes one image, or one of each coil.
CoilImages UnmixedFrames::plain_images(Acquired& acquired) const {
  numerics::Context& compute = scan_->compute;
  const auto& [encoded, padded, image, direction] = acquired.facts.geometry;
  const std::int64_t coils = acquired.coils();
  const bool joins = !options_.weights.coil_images;
  const float scale = 1.0f / static_cast<float>(encoded.size());
  CoilImages out{with_notes(*acquired.facts.frame, {{options_.name, "transform"}}),
                 compute.allocate<cfloat>({joins ? 1 : coils, image[0], image[1], image[2]})};
  if (!acquired.kspace) {  // as `fft` does with lines that were transformed as they came
    clear_missing_rows(compute, acquired.facts);
    numerics::images_from_lines(compute, acquired.facts.geometry, acquired.facts.half.view(), scale, joins,
                                out.data.view());
    return out;
  }
  Array<cfloat> images = joins ? compute.allocate<cfloat>({coils, image[0], image[1], image[2]}) : out.data;
  if (encoded[0] == 1 && padded[0] == 1)  // as `fft` does
    numerics::centered_fft(compute, acquired.kspace.view().reshaped({coils, encoded[1], encoded[2]}),
                           images.view().reshaped({coils, image[1], image[2]}), {padded[1], padded[2]}, 2, direction,
                           scale);
  else
    numerics::centered_fft(compute, acquired.kspace.view(), images.view(), padded, 3, direction, scale);
  if (joins) numerics::root_sum_of_squares(compute, images.view(), out.data.view());
  return out;
}

void UnmixedFrames::give(Acquired&& acquired, const ParallelWeights::Found& found, const Emit<CoilImages>& emit) {
  numerics::Context& compute = scan_->compute;
  const Weights& weights = *found.weights;
  std::map<std::string, std::string> notes = options_.notes;
  notes["weights"] = found.reused ? "reused" : "made";
  if (options_.weights.method == WeightsOptions::Method::grappa)
    notes[options_.name + "_residual"] = fmt::format("{:.3g}", weights.residual);
  if (options_.weights.method == WeightsOptions::Method::unfold) notes["coil_map_sets"] = weights.second ? "2" : "1";
  if (weights.g) notes["gfactor_mean"] = fmt::format("{:.3f}", weights.mean_g);
  const auto frame = with_notes(*acquired.facts.frame, notes);
  if (options_.weights.coil_images)
    return emit({frame, filled_images(compute, weights, {acquired.kspace, acquired.facts.half})});
  if (options_.weights.noise) warn_of_noise(*frame, weights);
  if (acquired.facts.half && !reads_acquired_rows_only(weights)) clear_missing_rows(compute, acquired.facts);
  const Array<cfloat> image =
      unmixed_image(compute, weights, {std::move(acquired.kspace), std::move(acquired.facts.half)});
  Array<cfloat> snr;
  if (options_.snr_units && weights.per_deviation) {
    snr = compute.allocate<cfloat>(image.shape());
    numerics::combine(compute, weights.per_deviation.view(), image.view(), snr.view(), /*divide=*/false);
  }
  emit({frame, image});
  if (options_.g_factor && weights.g && !found.reused) emit({of_series(*frame, 1), weights.g});
  if (snr) emit({of_series(*frame, 2), std::move(snr)});
}

void UnmixedFrames::warn_of_noise(const Frame& frame, const Weights& weights) {
  if (!weights.no_noise.empty() && told_.insert("noise gain").second)
    scan_->warn(
        fmt::format("{}: there are no g-factors and no images in units of SNR: {}", options_.name, weights.no_noise));
  const auto noise = frame.notes.find("noise");
  const bool white = noise != frame.notes.end() && noise->second != "none";
  if (!white && told_.insert("noise").second)
    scan_->warn(options_.name +
                ": g-factors and units of SNR are for white noise of standard deviation 1, but noise_adjust has not "
                "whitened this scan");
}

}  // namespace echotrain
