#include "gadgets/encoding/unmixed_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gadgets/encoding/unmixed_images.h"
#include "gadgets/numerics/coils/coil.h"
#include "gadgets/numerics/coils/coil_maps.h"
#include "gadgets/numerics/fft/fft.h"
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

void UnmixedFrames::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  weights_.start(scan);
  for (const auto& encoding : header.encodings) {
    Steps step = encoding.acceleration;
    for (std::size_t a = 0; a < 2; ++a)
      if (encoding.encoded.matrix[a + 1] == 1) step[a] = 1;  // nothing can be left out
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

void UnmixedFrames::check(const KSpace& kspace) const {
  if (!kspace.lines)
    throw ClientError(
        fmt::format("{}: the gadget before it does not say which lines of k-space were acquired", options_.name));
  const auto& n = kspace.data.shape();
  if (static_cast<std::int64_t>(kspace.lines->came.size()) != n[1] * n[2])
    throw ClientError(fmt::format("{}: the list of acquired lines is for another matrix", options_.name));
  if (kspace.frame->notes.contains("filter"))
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
  check(kspace);
  const SampledLines& lines = *kspace.lines;
  const Steps announced = announced_.at(kspace.frame->key.encoding);
  if (announced[0] <= 1 && announced[1] <= 1)
    return refuse("R=1", "the header announces no acceleration", std::move(kspace), emit);
  if (lines.count() == 0 || lines.first_x >= lines.last_x)
    return refuse("no lines", "no lines came, or none that have samples in common", std::move(kspace), emit);
  if (const std::string& why = no_fit_.at(kspace.frame->key.encoding); !why.empty())
    return refuse("lattice", why, std::move(kspace), emit);
  if (!lines.lattice) return refuse("lattice", missing_lines(lines, announced), std::move(kspace), emit);
  if (!kspace.calibration)
    return refuse("calibration",
                  "there are no reference lines; send some (flags 20, 21), or the middle of k-space in full",
                  std::move(kspace), emit);
  const std::int64_t coils = kspace.data.shape()[0], of_reference = kspace.calibration->data.shape()[0];
  if (coils != of_reference)
    throw ClientError(fmt::format("{}: slice {}: reference lines have {} coils, and lines of images have {}",
                                  options_.name, kspace.frame->key.slice, of_reference, coils));
  const auto& n = kspace.data.shape();
  const ParallelWeights::Found found = weights_.of(
      *kspace.calibration, lines, {{n[1], n[2], n[3]}, kspace.padded, kspace.image, numerics::Direction::inverse});
  if (!found.weights->problem.empty()) return refuse("weights", found.weights->problem, std::move(kspace), emit);
  give(std::move(kspace), found, emit);
}

void UnmixedFrames::refuse(const char* kind, const std::string& why, KSpace&& kspace, const Emit<CoilImages>& emit) {
  const bool accelerated = std::string_view(kind) != "R=1";
  const std::string text = fmt::format("{}: slice {}: {}; ", options_.name, kspace.frame->key.slice, why);
  if (options_.transform) {
    if (told_.insert(kind).second) {
      if (accelerated)
        scan_->warn(text + "such frames are transformed as they are, and their images alias");
      else
        scan_->info(text + "its images are plain transforms");
    }
    return give_plain(std::move(kspace), emit);
  }
  ++scan_->numbers.frames_refused;
  if (told_.insert(kind).second)
    scan_->warn(text + (accelerated ? "such frames give no image" : "use cartesian_2d, or 'otherwise: transform'"));
}

void UnmixedFrames::give_plain(KSpace&& kspace, const Emit<CoilImages>& emit) const {
  numerics::Context& compute = scan_->compute;
  const auto& from = kspace.data.shape();
  const std::int64_t coils = from[0];
  const auto& image = kspace.image;
  Array<cfloat> images = compute.allocate<cfloat>({coils, image[0], image[1], image[2]});
  const float scale = 1.0f / static_cast<float>(from[1] * from[2] * from[3]);
  if (from[1] == 1 && kspace.padded[0] == 1)  // as `fft` does it
    numerics::centered_fft(compute, kspace.data.view().reshaped({coils, from[2], from[3]}),
                           images.view().reshaped({coils, image[1], image[2]}), {kspace.padded[1], kspace.padded[2]}, 2,
                           numerics::Direction::inverse, scale);
  else
    numerics::centered_fft(compute, kspace.data.view(), images.view(), kspace.padded, 3, numerics::Direction::inverse,
                           scale);
  const auto frame = with_notes(*kspace.frame, {{options_.name, "transform"}});
  if (options_.weights.coil_images) return emit({frame, std::move(images)});
  Array<cfloat> joined = compute.allocate<cfloat>({1, image[0], image[1], image[2]});
  numerics::root_sum_of_squares(compute, images.view(), joined.view());
  emit({frame, std::move(joined)});
}

void UnmixedFrames::give(KSpace&& kspace, const ParallelWeights::Found& found, const Emit<CoilImages>& emit) {
  numerics::Context& compute = scan_->compute;
  const Weights& weights = *found.weights;
  std::map<std::string, std::string> notes = options_.notes;
  notes["weights"] = found.reused ? "reused" : "made";
  if (options_.weights.method == WeightsOptions::Method::grappa)
    notes[options_.name + "_residual"] = fmt::format("{:.3g}", weights.residual);
  if (weights.g) notes["gfactor_mean"] = fmt::format("{:.3f}", weights.mean_g);
  const auto frame = with_notes(*kspace.frame, notes);
  if (options_.weights.coil_images) return emit({frame, filled_images(compute, weights, kspace.data)});
  if (options_.weights.noise) warn_of_noise(*frame, weights);
  const Array<cfloat> image = unmixed_image(compute, weights, std::move(kspace.data));
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
