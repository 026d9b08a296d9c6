#include "gadgets/least_squares/realtime/cg_sense_realtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "gadgets/least_squares/coil_maps_gadget.h"
#include "gadgets/numerics/mri/coils/coil_maps.h"
#include "gadgets/shared/cache/plan_cache.h"

namespace echotrain {
namespace {

numerics::Shape doubled(const numerics::Shape& image) {
  numerics::Shape out;
  for (const auto extent : image) out.push_back(2 * extent);
  return out;
}

/// The key that the frames of a series share.
FrameKey series_key(FrameKey key) {
  key.repetition = key.phase = 0;
  return key;
}

}  // namespace

CgSenseRealtime::Workshop::Workshop(numerics::Context& compute, const numerics::Shape& image, std::int64_t coil_count,
                                    const numerics::NufftOptions& of_data, const numerics::NufftOptions& of_lags)
    : coils(coil_count),
      data(compute, image, of_data, coil_count),
      lags(compute, doubled(image), of_lags, 1),
      matrix(compute, image, coil_count),
      right(compute.allocate<cfloat>({coil_count, 1, image[0], image[1]})) {}

CgSenseRealtime::Series::Series(Scan& scan, const numerics::Shape& image, const numerics::FixedCgOptions& options)
    : solver(scan.compute, image, options), like(scan, SpikeRejection::kMostUnlikeSamples) {}

void CgSenseRealtime::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  for (const auto& encoding : header.encodings) {
    geometries_.push_back(image_geometry(encoding));
    const ImageGeometry& geometry = geometries_.back();
    if (geometry.dims != 2)
      throw ClientError(fmt::format(
          "cg_sense_realtime: images are 2D, but the header's encoded matrix is {} x {} x {}; use fhd, coil_maps and "
          "pcg, as in fhd_pcg_3d",
          encoding.encoded.matrix[0], encoding.encoded.matrix[1], encoding.encoded.matrix[2]));
    constexpr std::int64_t kLongest = 2048;
    for (const auto extent : geometry.extents())
      if (extent > kLongest)
        throw ClientError(
            fmt::format("cg_sense_realtime: an image has up to {} voxels an axis, not {}", kLongest, extent));
    try {
      const numerics::NufftLoad load{scan.compute.backend()};
      of_data_.push_back(numerics::options_for_accuracy(options_.accuracy, geometry.extents(), load));
      of_lags_.push_back(numerics::options_for_accuracy(options_.accuracy, doubled(geometry.extents()), load));
    } catch (const std::invalid_argument& error) {
      throw ClientError(fmt::format("cg_sense_realtime: {}", error.what()));
    }
  }
}

CgSenseRealtime::Workshop& CgSenseRealtime::workshop_for(std::uint16_t encoding, std::int64_t coils) {
  if (const auto found = workshops_.find(encoding); found != workshops_.end()) {
    if (found->second.coils != coils)
      throw ClientError(
          fmt::format("the number of channels changes within a scan, from {} to {}", found->second.coils, coils));
    return found->second;
  }
  require_coils_for_maps(kName, coils);
  return workshops_
      .try_emplace(encoding, scan_->compute, geometries_.at(encoding).extents(), coils, of_data_.at(encoding),
                   of_lags_.at(encoding))
      .first->second;
}

CgSenseRealtime::Series& CgSenseRealtime::series_of(const FrameKey& key, const Workshop& workshop) {
  if (const auto found = series_.find(key); found != series_.end()) return found->second;
  const numerics::FixedCgOptions solver{
      .iterations = static_cast<int>(options_.iterations), .previous = options_.lambda, .size = options_.tikhonov};
  Series& series = series_.try_emplace(key, *scan_, geometries_.at(key.encoding).extents(), solver).first->second;
  series.mean = scan_->compute.zeros<cfloat>(workshop.right.shape());
  series.maps = scan_->compute.allocate<cfloat>(workshop.right.shape());
  return series;
}

void CgSenseRealtime::make_maps(Series& series) {
  numerics::Context& compute = scan_->compute;
  adaptive_maps_of_middle(compute, middle_of_kspace(compute, series.mean, options_.calibration),
                          static_cast<int>(options_.block), 0, series.maps);
}

void CgSenseRealtime::process(Samples&& samples, const Emit<CoilImages>& emit) {
  const std::shared_ptr<const Frame> frame = samples.frame;
  if (samples.first) open_.erase(frame->id);
  Open& open = open_[frame->id];
  const bool last = samples.last;
  if (samples.data.size() > 0) add(open, std::move(samples));
  if (!last) return;
  const Open whole = std::move(open);
  open_.erase(frame->id);
  if (whole.count == 0) return;
  usual_samples_ = whole.count;
  reconstruct(whole, frame, emit);
}

void CgSenseRealtime::add(Open& open, Samples&& samples) {
  numerics::Context& compute = scan_->compute;
  const ImageGeometry& geometry = geometries_.at(samples.frame->key.encoding);
  const std::int64_t count = samples.data.shape()[0], coils = samples.data.shape()[1];
  const std::vector<double> positions =
      image_coordinates(compute.threads(), *samples.positions, geometry.voxel_ratio, samples.offset, count);
  const numerics::HostView<const double> coordinates(positions.data(), {count, 2});
  if (samples.first && samples.last) {
    open = {compute.upload<double>(coordinates), std::move(samples.data), std::move(samples.weights), count};
    return;
  }
  if (open.count > 0 && open.data.shape()[1] != coils)
    throw ClientError(
        fmt::format("the number of channels changes within a scan, from {} to {}", open.data.shape()[1], coils));
  const std::int64_t room = open.count == 0 ? 0 : open.data.shape()[0], needed = open.count + count;
  if (needed > room) {
    const std::int64_t more = std::max({needed, usual_samples_, 2 * room});
    Open larger{compute.allocate<double>({more, 2}), compute.allocate<cfloat>({more, coils}),
                compute.allocate<float>({more}), open.count};
    if (open.count > 0) {
      compute.copy<double>(open.coordinates.view().part(0, {open.count, 2}),
                           larger.coordinates.view().part(0, {open.count, 2}));
      compute.copy<cfloat>(open.data.view().part(0, {open.count, coils}),
                           larger.data.view().part(0, {open.count, coils}));
      compute.copy<float>(open.weights.view().part(0, {open.count}), larger.weights.view().part(0, {open.count}));
    }
    open = std::move(larger);
  }
  compute.copy<double>(coordinates, open.coordinates.view().part(2 * open.count, {count, 2}));
  compute.copy<cfloat>(samples.data.cview(), open.data.view().part(coils * open.count, {count, coils}));
  compute.copy<float>(samples.weights.cview(), open.weights.view().part(open.count, {count}));
  open.count = needed;
}

void CgSenseRealtime::reconstruct(const Open& open, const std::shared_ptr<const Frame>& frame,
                                  const Emit<CoilImages>& emit) {
  numerics::Context& compute = scan_->compute;
  const FrameKey& key = frame->key;
  const ImageGeometry& geometry = geometries_.at(key.encoding);
  const std::int64_t coils = open.data.shape()[1];
  Workshop& workshop = workshop_for(key.encoding, coils);
  Series& series = series_of(series_key(key), workshop);
  const numerics::Shape image = geometry.extents(), of_coils = geometry.extents(coils);

  const auto coordinates = open.coordinates.cview().part(0, {open.count, 2});
  const auto weights = open.weights.cview().part(0, {open.count});
  workshop.data.adjoint(compute, coordinates, open.data.cview().part(0, {open.count, coils}), weights,
                        workshop.right.view().reshaped(of_coils));
  workshop.lags.lags(compute, coordinates, weights, workshop.matrix.lags());
  workshop.matrix.take(compute);
  ++scan_->numbers.operators_made;

  const std::int64_t so_far = std::min(++series.frames, options_.average);
  series.like.take(workshop.right.cview(), 1 / static_cast<double>(so_far));
  series.like.add_to_mean(workshop.right.cview(), series.mean.view());
  series.like.forget(series.solver);
  if (series.frames <= 2) make_maps(series);  // the first frame may have had no signal

  const numerics::Shape one{1, 1, image[0], image[1]};
  numerics::combine(compute, series.maps.cview(), workshop.right.cview(), series.solver.right().reshaped(one),
                    /*divide=*/false);
  series.solver.solve(
      compute,
      [&](numerics::DeviceView<const cfloat> x, numerics::DeviceView<cfloat> y) {
        workshop.matrix.apply_sense(compute, series.maps.cview().reshaped(of_coils), x, y);
      },
      workshop.matrix.largest(), workshop.matrix.can_be_recorded());
  Array<cfloat> out = compute.allocate<cfloat>(one);
  compute.copy<cfloat>(series.solver.image().reshaped(one), out.view());
  emit({frame, std::move(out)});
  if (series.frames > 2 && maps_are_due(series.frames, options_.average, options_.refresh))
    make_maps(series);  // for the frames after this one
  series.like.tell();
}

void CgSenseRealtime::finish(End /*how*/, const Emit<CoilImages>& /*emit*/) {
  for (auto& [key, series] : series_) series.like.tell_at_end();
}

}  // namespace echotrain
