#include "gadgets/gridding/gridded_images.h"

#include <utility>

#include "gadgets/numerics/mri/coils/coil.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "gadgets/shared/program/scan_view.h"

namespace echotrain {

template <class In>
void GriddedImages<In>::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  gridder_.start(header, scan, is_planes<In>);
}

template <class In>
void GriddedImages<In>::process(In&& samples, const Emit<CoilImages>& emit) {
  numerics::Context& compute = scan_->compute;
  const std::shared_ptr<const Frame> frame = samples.frame;
  const std::int64_t stack = planes_of(samples);
  auto gridded = gridder_.add(std::move(samples));
  if (!gridded) return;
  const numerics::Shape image = gridded->plan->image_shape();
  const std::int64_t channels = gridded->grid.shape()[0], planes = image.rank() == 2 ? stack : image[0];
  const std::size_t rank = image.rank();
  const std::int64_t coils = image.rank() == 2 ? channels / planes : channels;
  numerics::Shape as_gridded{channels};
  for (auto extent : image) as_gridded.push_back(extent);
  Array<cfloat> images = compute.allocate<cfloat>(as_gridded);
  gridded->plan->to_images(compute, gridded->grid.view(), images.view());
  gridded->grid = {};
  const numerics::Shape volume{coils, planes, image[rank - 2], image[rank - 1]};
  images = images.reshaped(volume);
  if (rss_) {
    const ScanView& view = compute.cache<ScanView>();
    if (view.wants_coil_images && view.wants_coil_images()) view.coil_images(images.cview());
    Array<cfloat> combined = compute.allocate<cfloat>({1, volume[1], volume[2], volume[3]});
    numerics::root_sum_of_squares(compute, images.view(), combined.view());
    images = std::move(combined);
  }
  emit({frame, std::move(images)});
}

template class GriddedImages<Samples>;
template class GriddedImages<PlaneSamples>;

}  // namespace echotrain
