#include "gadgets/field/off_resonance_gadget.h"

#include <fmt/format.h>

#include <utility>

namespace echotrain {

Parameters<OffResonanceImages::Options> OffResonanceImages::parameters() {
  return Parameters<Options>()
      .group("field", &Options::field, field_parameters())
      .group("gridding", &Options::gridding, gridding_parameters());
}

/// Where readouts make shots, a frame must begin with one; the readouts that enter a window need not.
Delivery OffResonanceImages::delivery(const Options& options) {
  const Delivery most = FrameGridder::delivery(options.gridding);
  return most == Delivery::windows && options.field.shot_readouts > 1 ? Delivery::parts : most;
}

void OffResonanceImages::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  field_.start(scan);
  gridder_.start(header, scan);
  for (const auto& encoding : header.encodings) geometries_.push_back(image_geometry(encoding));
}

void OffResonanceImages::process(Samples&& samples, const Emit<CoilImages>& emit) {
  numerics::Context& compute = scan_->compute;
  const ImageGeometry& geometry = geometries_.at(samples.frame->key.encoding);
  const numerics::Shape image = geometry.extents();
  const std::shared_ptr<const numerics::OffResonance> field = field_.of_frame(samples, image);
  const std::int64_t segments = field->segments();
  if (samples.data.size() > 0) {
    const numerics::Shape& shape = samples.data.shape();
    Array<cfloat> split = compute.allocate<cfloat>({shape[0], segments * shape[1]});
    field->split(compute, ScanFieldMap::first_sample(samples), samples.data.view(), split.view());
    samples.data = std::move(split);
  }
  auto gridded = gridder_.add(std::move(samples));
  if (!gridded) return;
  const std::int64_t channels = gridded->grid.shape()[0], coils = channels / segments;
  Array<cfloat> images = compute.allocate<cfloat>(geometry.extents(channels));
  gridded->plan->to_images(compute, gridded->grid.view(), images.view());
  gridded->grid = {};
  Array<cfloat> joined = compute.allocate<cfloat>(geometry.extents(coils));
  field->gather(compute, images.view(), joined.view());
  const std::size_t rank = image.rank();
  emit({with_notes(*gridded->frame, {{"off_resonance_segments", std::to_string(segments)},
                                     {"off_resonance_error", fmt::format("{:.1e}", field->error())}}),
        joined.reshaped({coils, rank == 3 ? image[0] : 1, image[rank - 2], image[rank - 1]})});
}

}  // namespace echotrain
