#include "gadgets/nlinv/nlinv_frames.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/numerics/inverse/nlinv/frame_median.h"

namespace echotrain {

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

void check_nlinv_extents(std::string_view gadget, const numerics::Shape& image, const numerics::Shape& solved,
                         double field, std::string_view instead) {
  using numerics::Nlinv;
  for (const auto extent : solved) {
    if (extent >= Nlinv::kLeastExtent && extent <= Nlinv::kMostExtent) continue;
    const std::string wider =
        field > 1 ? fmt::format(", which `field: {}` makes {} x {}", field, solved[1], solved[0]) : "";
    throw ClientError(fmt::format(
        "{}: it solves for {} to {} voxels an axis, but the header's recon matrix is {} x {}{}; {}", gadget,
        Nlinv::kLeastExtent, Nlinv::kMostExtent, image[1], image[0], wider,
        extent < Nlinv::kLeastExtent || field == 1 ? fmt::format("reconstruct such images without it, by {}", instead)
                                                   : "a smaller `field` may do"));
  }
}

numerics::Shape nlinv_extents(const numerics::Shape& image, double field) {
  numerics::Shape out;
  for (const auto extent : image) {
    const auto wider = 2 * static_cast<std::int64_t>(std::lround(field * static_cast<double>(extent) / 2));
    out.push_back(std::max(extent, wider));
  }
  return out;
}

NlinvFrames::Series& NlinvFrames::series_of(const FrameKey& key, std::int64_t slices, const numerics::Shape& images) {
  FrameKey own;
  own.encoding = key.encoding;
  own.slice = key.slice;
  own.contrast = key.contrast;
  own.set = key.set;
  Series& series = series_[own];
  const numerics::Shape extents{images[1], images[2]};
  if (!series.nlinv) {
    try {
      series.nlinv = std::make_unique<numerics::Nlinv>(scan_->compute, images[0], extents,
                                                       numerics::Shape{2 * images[1], 2 * images[2]},
                                                       solver_options(options_), slices);
    } catch (const std::invalid_argument& error) {
      throw ClientError(fmt::format("{}: {}", gadget_, error.what()));
    }
  }
  if (series.nlinv->coils() != images[0] || !(series.nlinv->image() == extents))
    throw ClientError(
        fmt::format("{}: a frame has {} coils and a matrix of {}, but the frames before had {} coils and {}", gadget_,
                    images[0], extents.text(), series.nlinv->coils(), series.nlinv->image().text()));
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

NlinvImages NlinvFrames::solve(const FrameKey& key, const numerics::NlinvFrame& equations, std::int64_t slices,
                               const numerics::Shape& image) {
  const numerics::Shape& right = equations.right.shape();
  Series& series = series_of(key, slices, slices > 1 ? numerics::Shape{right[1], right[2], right[3]} : right);
  const numerics::Shape one{image[0], image[1]}, all{slices, image[0], image[1]};
  Array<cfloat> out = scan_->compute.allocate<cfloat>({slices, 1, image[0], image[1]});
  const auto solve_once = [&] { return series.nlinv->solve(equations, out.view().reshaped(slices > 1 ? all : one)); };
  numerics::NlinvResult result = solve_once();
  const bool began = std::exchange(series.begun, false);
  if (!std::isfinite(result.power))
    throw ClientError(fmt::format("{}: the data are not finite, or so large that sums of them are not", gadget_));
  if (!std::isfinite(result.residual) && began) {
    scan_->warn(
        fmt::format("{}: the steps from the frame before led nowhere; the frame was solved as a first one", gadget_));
    result = solve_once();
  }
  if (!std::isfinite(result.residual))
    throw ClientError(
        fmt::format("{}: no image can be solved for: sums of the data are too large for numbers, or the Newton steps "
                    "diverge, which a larger alpha or a smaller scale prevents",
                    gadget_));
  series.begun = result.power > 0;
  const numerics::NlinvOptions options = solver_options(options_);
  NlinvImages made;
  made.notes = {{"nlinv_newton_steps", std::to_string(options.newton_steps)},
                {"nlinv_inner_steps", fmt::format("{}", fmt::join(numerics::nlinv_inner_steps(options), " "))},
                {"nlinv_residual", fmt::format("{:.4g}", result.residual)}};
  made.images = over_time(series, std::move(out));
  if (options_.median > 1) made.notes["nlinv_median"] = std::to_string(series.images.size());
  return made;
}

CoilImages NlinvFrames::solve(const std::shared_ptr<const Frame>& frame, const numerics::NlinvFrame& equations,
                              const numerics::Shape& image) {
  NlinvImages made = solve(frame->key, equations, 1, image);
  return {with_notes(*frame, made.notes), std::move(made.images)};
}

}  // namespace echotrain
