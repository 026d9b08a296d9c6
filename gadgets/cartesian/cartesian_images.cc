#include "gadgets/cartesian/cartesian_images.h"

#include <utility>

#include "gadgets/shared/program/item_memory.h"

namespace echotrain {

void CartesianImages::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  lines_.start(header, direction_, options_, scan);
  warn_of_aliasing(header, scan);
}

void CartesianImages::process(Readouts&& readouts, const Emit<CoilImages>& emit) {
  refuse_reversed(readouts);
  if (!readouts.heads.empty() && !lines_.puts_back(readouts.heads[0].encoding_space_ref))
    note_unused_calibration(readouts, *scan_);
  lines_.keep(readouts);
  if (readouts.kind != protocol::ReadoutKind::imaging) return;
  lines_.add(readouts);
  if (!readouts.last) return;
  if (HybridFrame whole = lines_.end(*readouts.frame); whole.half) emit(image_of(std::move(whole)));
}

CoilImages CartesianImages::image_of(HybridFrame&& whole) const {
  numerics::Context& compute = scan_->compute;
  clear_missing_rows(compute, whole);
  const auto& n = whole.geometry.encoded;
  const auto& image = whole.geometry.image;
  CoilImages out{whole.frame,
                 allocate_item<cfloat>(compute, {rss_ ? 1 : whole.half.shape()[0], image[0], image[1], image[2]}),
                 rss_ ? 0 : whole.image_noise};
  numerics::images_from_lines(compute, whole.geometry, whole.half.view(), 1.0f / static_cast<float>(n[0] * n[1] * n[2]),
                              rss_, out.data.view());
  return out;
}

}  // namespace echotrain
