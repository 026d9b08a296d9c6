#include "gadgets/nlinv/nlinv_frames.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/numerics/nlinv/frame_median.h"

namespace echotrain {

Parameters<NlinvRealtimeOptions> nlinv_parameters() {
  using Options = NlinvRealtimeOptions;
  using numerics::NlinvOptions;
  return Parameters<Options>()
      .integer("newton_steps", &Options::newton_steps, 1, NlinvOptions::kMostSteps,
               "Newton steps of a frame, always that many")
      .integer(
          "inner", &Options::inner, 1, NlinvOptions::kMostInner,
          "steps of conjugate gradients in a Newton step, in the mean; they rise with the step, from 2 to 12 for 6 "
          "Newton steps of 7: 42 in all. Their number is fixed, so that every frame takes the same time")
      .integer("first_frame_passes", &Options::first_frame_passes, 1, NlinvOptions::kMostPasses,
               "how often the first frame of a slice is solved: at first from nothing, then from its own solution, "
               "which it is "
               "drawn to as later frames are drawn to the frame before. It takes as many times as long")
      .number("damping", &Options::damping, 0, 1,
              "the frame before, times this, is what a frame is drawn to; 0: frames differ as they like, near 1: what "
              "moves leaves a trace")
      .number("alpha", &Options::alpha, 1e-9, 1e9, "weight of that in the first Newton step")
      .number("reduction", &Options::reduction, 0.01, 1, "factor of the weight from one Newton step to the next")
      .number("scale", &Options::scale, 1e-3, 1e6,
              "what the data of the first frame are scaled to in the 2-norm before alpha counts: more trusts the data "
              "more. Images are in the unit of the data all the same")
      .integer("median", &Options::median, 1, numerics::kMostMedianFrames,
               "an image shows the median of the magnitudes of this many frames up to its own, against streaks that "
               "differ from frame to frame; it then lags by half of them. 1: none")
      .number("field", &Options::field, 1, 2,
              "extent that is solved for over that of the image, which is its middle: more than 1 where the object is "
              "larger than the image. The time grows with the square. Samples anywhere only")
      .number("accuracy", &Options::accuracy, 1e-5, 0.1, "relative RMS error of the gridding. Samples anywhere only");
}

numerics::NlinvOptions solver_options(const NlinvRealtimeOptions& options) {
  numerics::NlinvOptions out;
  out.newton_steps = static_cast<int>(options.newton_steps);
  out.inner = static_cast<int>(options.inner);
  out.first_passes = static_cast<int>(options.first_frame_passes);
  out.damping = options.damping;
  out.first_alpha = options.alpha;
  out.reduction = options.reduction;
  out.scale = options.scale;
  return out;
}

void check_nlinv_extents(const numerics::Shape& image, const numerics::Shape& solved, double field) {
  using numerics::Nlinv;
  for (const auto extent : solved) {
    if (extent >= Nlinv::kLeastExtent && extent <= Nlinv::kMostExtent) continue;
    const std::string wider =
        field > 1 ? fmt::format(", which `field: {}` makes {} x {}", field, solved[1], solved[0]) : "";
    throw ClientError(fmt::format(
        "nlinv_realtime: it solves for {} to {} voxels an axis, but the header's recon matrix is {} x {}{}; {}",
        Nlinv::kLeastExtent, Nlinv::kMostExtent, image[1], image[0], wider,
        extent < Nlinv::kLeastExtent || field == 1
            ? "reconstruct such images without it, by gridding or cg_sense_realtime"
            : "a smaller `field` may do"));
  }
}

NlinvFrames::Series& NlinvFrames::series_of(const FrameKey& key, const numerics::Shape& images) {
  FrameKey own;
  own.encoding = key.encoding;
  own.slice = key.slice;
  own.contrast = key.contrast;
  own.set = key.set;
  Series& series = series_[own];
  const numerics::Shape extents{images[1], images[2]};
  if (!series.nlinv) {
    try {
      series.nlinv = std::make_unique<numerics::Nlinv>(
          scan_->compute, images[0], extents, numerics::Shape{2 * images[1], 2 * images[2]}, solver_options(options_));
    } catch (const std::invalid_argument& error) {
      throw ClientError(fmt::format("nlinv_realtime: {}", error.what()));
    }
  }
  if (series.nlinv->coils() != images[0] || !(series.nlinv->image() == extents))
    throw ClientError(fmt::format(
        "nlinv_realtime: a frame has {} coils and a matrix of {}, but the frames before had {} coils and {}", images[0],
        extents.text(), series.nlinv->coils(), series.nlinv->image().text()));
  return series;
}

Array<cfloat> NlinvFrames::over_time(Series& series, Array<cfloat> image) {
  if (options_.median == 1) return image;
  series.images.push_back(std::move(image));
  if (static_cast<std::int64_t>(series.images.size()) > options_.median) series.images.pop_front();
  std::vector<numerics::DeviceView<const cfloat>> frames;
  for (const Array<cfloat>& each : series.images) frames.push_back(each.cview());
  Array<cfloat> median = scan_->compute.allocate<cfloat>(series.images.back().shape());
  numerics::median_of_frames(scan_->compute, frames, median.view());
  return median;
}

CoilImages NlinvFrames::solve(const std::shared_ptr<const Frame>& frame, const numerics::NlinvFrame& equations,
                              const numerics::Shape& image) {
  Series& series = series_of(frame->key, equations.right.shape());
  Array<cfloat> out = scan_->compute.allocate<cfloat>({1, 1, image[0], image[1]});
  const auto solve_once = [&] { return series.nlinv->solve(equations, out.view().reshaped(image)); };
  numerics::NlinvResult result = solve_once();
  const bool began = std::exchange(series.begun, false);
  if (!std::isfinite(result.power))
    throw ClientError("nlinv_realtime: the data are not finite, or so large that sums of them are not");
  if (!std::isfinite(result.residual) && began) {
    scan_->warn("nlinv_realtime: the steps from the frame before led nowhere; the frame was solved as a first one");
    result = solve_once();
  }
  if (!std::isfinite(result.residual))
    throw ClientError(
        "nlinv_realtime: no image can be solved for: sums of the data are too large for numbers, or the Newton steps "
        "diverge, which a larger alpha or a smaller scale prevents");
  series.begun = result.power > 0;
  const numerics::NlinvOptions options = solver_options(options_);
  std::map<std::string, std::string> notes{
      {"nlinv_newton_steps", std::to_string(options.newton_steps)},
      {"nlinv_inner_steps", fmt::format("{}", fmt::join(numerics::nlinv_inner_steps(options), " "))},
      {"nlinv_residual", fmt::format("{:.4g}", result.residual)}};
  Array<cfloat> shown = over_time(series, std::move(out));
  if (options_.median > 1) notes["nlinv_median"] = std::to_string(series.images.size());
  return {with_notes(*frame, notes), std::move(shown)};
}

}  // namespace echotrain
