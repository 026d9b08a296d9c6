#include "gadgets/nlinv/nlinv_realtime.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "gadgets/numerics/inverse/operators/normal_operator.h"
#include "gadgets/shared/cache/plan_cache.h"

namespace echotrain {

void NlinvRealtime::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  frames_.start(scan);
  for (const auto& encoding : header.encodings) {
    geometries_.push_back(image_geometry(encoding));
    if (geometries_.back().dims != 2)
      throw ClientError(
          fmt::format("nlinv_realtime: images are of planes, but the header's encoded matrix is {} x {} x {}",
                      encoding.encoded.matrix[0], encoding.encoded.matrix[1], encoding.encoded.matrix[2]));
    check_nlinv_extents(kName, geometries_.back().extents(),
                        extents_of(static_cast<std::uint16_t>(geometries_.size() - 1)), options_.field);
  }
}

/// The extents to solve for, [y, x].
numerics::Shape NlinvRealtime::extents_of(std::uint16_t encoding) const {
  return nlinv_extents(geometries_.at(encoding).extents(), options_.field);
}

void NlinvRealtime::process(Samples&& samples, const Emit<CoilImages>& emit) {
  const std::shared_ptr<const Frame> frame = samples.frame;
  const std::uint16_t encoding = frame->key.encoding;
  const std::int64_t count = samples.data.size() > 0 ? samples.data.shape()[0] : 0;
  std::unique_ptr<numerics::GriddedFrame>& open = open_[frame->id];
  if (!open && count > 0) {
    const std::int64_t coils = samples.data.shape()[1];
    auto& spare = spare_[{encoding, coils}];
    if (spare.empty()) {
      try {
        spare.push_back(
            std::make_unique<numerics::GriddedFrame>(scan_->compute, coils, extents_of(encoding), options_.accuracy));
      } catch (const std::invalid_argument& error) {
        throw ClientError(fmt::format("nlinv_realtime: {}", error.what()));
      }
    }
    open = std::move(spare.back());
    spare.pop_back();
    open->clear();
  }
  if (open && (samples.first || samples.part == Samples::Part::whole)) open->clear();
  if (count > 0) {
    if (samples.data.shape()[1] != open->coils())
      throw ClientError(fmt::format("nlinv_realtime: the number of channels changes within a frame, from {} to {}",
                                    open->coils(), samples.data.shape()[1]));
    const SamplePositions& positions = *samples.positions;
    const std::vector<double> coordinates = image_coordinates(
        scan_->compute.threads(), positions, geometries_.at(encoding).voxel_ratio, samples.offset, count);
    open->add({coordinates.data(), {count, 2}}, samples.data.view(), samples.weights.view(),
              {positions.weights.data() + samples.offset, {count}});
  }
  if (!samples.last) return;
  std::unique_ptr<numerics::GriddedFrame> whole = std::move(open);
  open_.erase(frame->id);
  if (!whole) {  // a frame without samples tells nothing, not even the number of coils
    const numerics::Shape image = geometries_.at(encoding).extents();
    emit({frame, scan_->compute.zeros<cfloat>({1, 1, image[0], image[1]})});
    return;
  }
  emit(frames_.solve(frame, whole->finish(), geometries_.at(encoding).extents()));
  const std::int64_t coils = whole->coils();
  spare_[{encoding, coils}].push_back(std::move(whole));
}

NlinvOfEquations::NlinvOfEquations(Options options) : frames_(kName, options) {
  if (options.field != 1)
    throw std::invalid_argument(
        "field: other than 1 is for samples anywhere; the equations of `encoding` and `fhd` have an extent already");
}

void NlinvOfEquations::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  frames_.start(scan);
  for (const auto& encoding : header.encodings) {
    const numerics::Shape image = image_geometry(encoding).image;
    check_nlinv_extents(kName, {image[1], image[2]}, {image[1], image[2]}, 1);
  }
}

void NlinvOfEquations::process(NormalEquations&& equations, const Emit<CoilImages>& emit) {
  if (equations.maps) throw ClientError("nlinv_realtime: sensitivities are what it works out; leave out coil_maps");
  const numerics::Shape& shape = equations.right.shape();
  if (shape[1] != 1)
    throw ClientError(
        fmt::format("nlinv_realtime: images are of planes, but the frame's matrix has {} of them", shape[1]));
  numerics::NlinvFrame frame;
  frame.matrix = [&](numerics::DeviceView<const cfloat> x, numerics::DeviceView<cfloat> y) {
    equations.matrix->apply(scan_->compute, x, y);
  };
  const double largest = equations.matrix->largest();
  frame.matrix_scale = frame.data_scale = largest > 0 ? 1 / largest : 1;
  frame.right = equations.right.cview().reshaped({shape[0], shape[2], shape[3]});
  frame.power = equations.power.cview();
  emit(frames_.solve(equations.frame, frame, {shape[2], shape[3]}));
}

}  // namespace echotrain
