#include "gadgets/shared/frame_gridder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace echotrain {
namespace {

constexpr std::size_t kHeldPlans = 4;

/// The part [begin, end) of the first axis of [sample, coil] or [sample].
numerics::DeviceView<const cfloat> rows(const Array<cfloat>& all, std::int64_t begin, std::int64_t end) {
  const std::int64_t coils = all.shape()[1];
  return all.view().part(begin * coils, {end - begin, coils});
}
numerics::DeviceView<const float> rows(const Array<float>& all, std::int64_t begin, std::int64_t end) {
  return all.view().part(begin, {end - begin});
}

void check_channels(const Array<cfloat>& grid, const Samples& samples) {
  if (samples.data.shape()[1] != grid.shape()[0])
    throw ClientError(fmt::format("the number of channels changes within a scan, from {} to {}", grid.shape()[0],
                                  samples.data.shape()[1]));
}

}  // namespace

Parameters<GriddingOptions> gridding_parameters() {
  using Nufft = numerics::NufftOptions;
  return Parameters<GriddingOptions>()
      .integer("dimensions", &GriddingOptions::dimensions, 2, 3,
               "dimensions of the encoding; a scan with another number is refused at its header")
      .integer("kernel_width", &GriddingOptions::kernel_width, Nufft::kNarrowest, Nufft::kWidest,
               "width of the kernel; wider is more accurate and slower")
      .unit("grid cells")
      .number("oversampling", &GriddingOptions::oversampling, Nufft::kLeastOversampling, Nufft::kMostOversampling,
              "grid extent / image extent; larger is more accurate and takes more memory")
      .number("accuracy", &GriddingOptions::accuracy, 0, 0.1,
              "relative RMS error of images, such as 1e-3; chooses kernel_width and oversampling, which must then be "
              "left out. 0: they are as given")
      .flag("incremental", &GriddingOptions::incremental,
            "grids readouts as they come, where their weights are known by then, so that little is left after the last "
            "one; false: each frame at its end, with the same bits in every run")
      .integer("rebuild_every", &GriddingOptions::rebuild_every, 1, 1000000,
               "number of moves after which a sliding window's grid is made anew, so that rounding does not add up");
}

FrameGridder::FrameGridder(GriddingOptions options) : options_(options) {
  const GriddingOptions defaults;
  if (options.accuracy > 0 &&
      (options.kernel_width != defaults.kernel_width || options.oversampling != defaults.oversampling))
    throw std::invalid_argument("accuracy chooses kernel_width and oversampling; give either accuracy or those two");
}

void FrameGridder::start(const protocol::Header& header, Scan& scan, bool planes) {
  scan_ = &scan;
  for (const auto& encoding : header.encodings) {
    geometries_.push_back(image_geometry(encoding));
    ImageGeometry& geometry = geometries_.back();
    if (planes) geometry.dims = 2;
    if (geometry.dims != options_.dimensions)
      throw ClientError(fmt::format(
          "this pipeline grids {}D data, but the header's encoded matrix is {} x {} x {}; use {}", options_.dimensions,
          encoding.encoded.matrix[0], encoding.encoded.matrix[1], encoding.encoded.matrix[2],
          geometry.dims == 3 ? "kooshball_3d or stack_of_stars" : "radial_2d or spiral_2d"));
    const std::int64_t acceleration = std::int64_t{encoding.acceleration[0]} * encoding.acceleration[1];
    if (acceleration > 1)
      scan.warn(fmt::format("R={}: image will show undersampling streaks, this pipeline fills no missing data",
                            acceleration));
    numerics::NufftOptions nufft;
    nufft.kernel_width = static_cast<int>(options_.kernel_width);
    nufft.oversampling = options_.oversampling;
    if (options_.accuracy > 0) {
      try {
        const numerics::Shape image = request(nullptr, static_cast<std::uint16_t>(nufft_.size())).image;
        const numerics::NufftLoad load{scan.compute.backend()};
        const auto within =
            options_.any_trajectory ? numerics::options_within(options_.accuracy, image, load) : std::nullopt;
        nufft = within ? *within : numerics::options_for_accuracy(options_.accuracy, image, load);
        // Frames in parts must equal whole frames. The error that slack adds is known on average only, not for any
        // trajectory, whose samples may all lie alike between grid points.
        if (!within && scan.delivery == Delivery::frames) {
          const double error = numerics::expected_error(nufft, image);
          nufft.slack = std::sqrt(std::max(0.0, options_.accuracy * options_.accuracy - error * error));
        }
      } catch (const std::invalid_argument& error) {
        throw ClientError(fmt::format("gridding: {}", error.what()));
      }
    }
    nufft.use = numerics::NufftUse::adjoint;
    nufft_.push_back(nufft);
  }
  loose_.resize(nufft_.size());
  // Guesses the most recent trajectory of such scans; the guess is checked against the data when they come.
  if (scan.likely_positions().empty()) return;
  const auto& likely = scan.likely_positions().front();
  if (likely->dims != options_.dimensions || likely->encoding >= geometries_.size()) return;
  try {
    shared_plan(likely, likely->encoding, false);
  } catch (const ResourceError&) {  // a guess must not end a scan
  }
}

PlanCache::Request FrameGridder::request(std::shared_ptr<const SamplePositions> positions,
                                         std::uint16_t encoding) const {
  const ImageGeometry& geometry = geometries_.at(encoding);
  PlanCache::Request out;
  out.positions = std::move(positions);
  out.voxel_ratio = geometry.voxel_ratio;
  out.image = geometry.extents();
  if (encoding < nufft_.size()) out.options = nufft_[encoding];
  return out;
}

/// `count`: true if the plan is for a frame and counts in the log's numbers.
std::shared_ptr<const numerics::NufftPlan> FrameGridder::shared_plan(
    const std::shared_ptr<const SamplePositions>& positions, std::uint16_t encoding, bool count) {
  ScanNumbers& numbers = scan_->numbers;
  auto held = std::find_if(plans_.begin(), plans_.end(),
                           [&](const Held& each) { return each.positions == positions && each.encoding == encoding; });
  bool reused = held != plans_.end();
  if (!reused) {
    PlanCache::Request what = request(positions, encoding);
    const PlanCache::Result result = scan_->compute.resources().get<PlanCache>().get(scan_->compute, what);
    reused = result.reused;
    numbers.plan_ms += result.made_ms;
    held = plans_.insert(plans_.end(), {positions, encoding, result.object});
  }
  std::rotate(plans_.begin(), held, held + 1);
  if (plans_.size() > kHeldPlans) plans_.pop_back();
  if (!reused) ++numbers.plans_made;
  if (reused && count) ++numbers.plans_reused;
  return plans_.front().plan;
}

/// Makes a plan for a few samples, to be used once.
std::shared_ptr<const numerics::NufftPlan> FrameGridder::loose_plan(
    const std::shared_ptr<const SamplePositions>& positions, std::uint16_t encoding) {
  PlanCache::Request what = request(positions, encoding);
  what.options.use = numerics::NufftUse::accumulate;
  std::shared_ptr<const numerics::NufftPlan>& one = loose_.at(encoding);
  if (one) return what.make_like(scan_->compute, *one);
  return one = what.make(scan_->compute);
}

std::shared_ptr<const numerics::NufftPlan> FrameGridder::plan(const Samples& samples) {
  return shared_plan(samples.positions, samples.frame->key.encoding, true);
}

Array<cfloat> FrameGridder::make_grid(const numerics::NufftPlan& plan, std::int64_t coils) {
  numerics::Shape shape{coils};
  for (auto extent : plan.grid_shape()) shape.push_back(extent);
  return scan_->compute.allocate<cfloat>(shape);
}

std::optional<FrameGridder::Gridded> FrameGridder::add(Samples&& samples) {
  const std::shared_ptr<const Frame> frame = samples.frame;
  if (samples.part == Samples::Part::moved) return move_window(std::move(samples));
  if (samples.part == Samples::Part::whole) {
    partial_.erase(frame->id);
    Gridded out{frame, {}, plan(samples)};
    out.grid = make_grid(*out.plan, samples.data.shape()[1]);
    out.plan->grid(scan_->compute, samples.data.view(), samples.weights.view(), out.grid.view());
    return out;
  }
  Partial& partial = partial_[frame->id];
  add_part(partial, samples);
  if (!samples.last) return std::nullopt;
  Gridded out{frame, std::move(partial.grid), std::move(partial.plan)};
  partial_.erase(frame->id);
  return out;
}

void FrameGridder::add_part(Partial& partial, const Samples& samples) {
  const std::uint16_t encoding = samples.frame->key.encoding;
  const bool next = samples.part == Samples::Part::next;
  if (samples.first) {
    partial = {};
    partial.plan = next ? plan(samples) : loose_plan(samples.positions, encoding);
    partial.grid = make_grid(*partial.plan, samples.data.shape()[1]);
    scan_->compute.clear<cfloat>(partial.grid.view());
  }
  if (samples.data.size() == 0) return;
  check_channels(partial.grid, samples);
  // Each loose part has its own plan.
  const auto plan = next || samples.first ? partial.plan : loose_plan(samples.positions, encoding);
  plan->accumulate(scan_->compute, samples.offset, samples.data.view(), samples.weights.view(), 1, partial.grid.view());
}

/// Adds (or subtracts) those readouts of a chunk that are among begin .. end - 1.
void FrameGridder::add_readouts(Window& window, const Chunk& chunk, std::int64_t begin, std::int64_t end, float sign) {
  begin = std::max(begin, chunk.begin);
  end = std::min(end, chunk.end);
  if (begin >= end) return;
  const std::int64_t from = (begin - chunk.begin) * chunk.per_readout, to = (end - chunk.begin) * chunk.per_readout;
  chunk.plan->accumulate(scan_->compute, from, rows(chunk.data, from, to), rows(chunk.weights, from, to), sign,
                         window.grid.view());
}

/// Moves a window to the begin of a frame: readouts that have left it are subtracted, or its grid is made anew from the
/// others.
void FrameGridder::begin_position(Window& window, const Frame& frame) {
  const std::int64_t begin = frame.window_begin;
  if (window.chunks.empty()) return;
  const std::int64_t entered = window.chunks.back().end;
  if (++window.moves < options_.rebuild_every) {
    for (const Chunk& chunk : window.chunks) add_readouts(window, chunk, window.begin, begin, -1);
  } else {
    window.moves = 0;
    scan_->compute.clear<cfloat>(window.grid.view());
    for (const Chunk& chunk : window.chunks) add_readouts(window, chunk, begin, entered, 1);
  }
  window.begin = begin;
  while (!window.chunks.empty() && window.chunks.front().end <= begin) window.chunks.pop_front();
  if (window.chunks.empty()) {  // frames were left out; their rounding is cleared
    window.moves = 0;
    scan_->compute.clear<cfloat>(window.grid.view());
  }
}

std::optional<FrameGridder::Gridded> FrameGridder::move_window(Samples&& samples) {
  const std::shared_ptr<const Frame> frame = samples.frame;
  const bool last = samples.last;
  Window& window = windows_[frame->window];
  if (window.grid) check_channels(window.grid, samples);
  if (samples.first) begin_position(window, *frame);
  window.plan = loose_plan(samples.positions, frame->key.encoding);
  if (!window.grid) {
    window.grid = make_grid(*window.plan, samples.data.shape()[1]);
    scan_->compute.clear<cfloat>(window.grid.view());
  }
  const std::int64_t entered = window.chunks.empty() ? frame->window_begin : window.chunks.back().end;
  window.chunks.push_back({.begin = entered,
                           .end = entered + samples.readouts,
                           .per_readout = samples.data.shape()[0] / samples.readouts,
                           .data = std::move(samples.data),
                           .weights = std::move(samples.weights),
                           .plan = window.plan});
  add_readouts(window, window.chunks.back(), entered, entered + samples.readouts, 1);
  if (!last) return std::nullopt;
  // The transform works in place and the window still needs its grid, so the frame gets a copy.
  Gridded out{frame, scan_->compute.allocate<cfloat>(window.grid.shape()), window.plan};
  scan_->compute.copy<cfloat>(window.grid.view(), out.grid.view());
  ++scan_->numbers.frames_in_parts;
  return out;
}

}  // namespace echotrain
