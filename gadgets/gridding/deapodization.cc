#include "gadgets/gridding/deapodization.h"

#include "gadgets/numerics/transforms/nufft/nufft.h"

namespace echotrain {

void Deapodization::start(const protocol::Header& /*header*/, Scan& scan) { scan_ = &scan; }

void Deapodization::process(OversampledImages&& images, const Emit<CoilImages>& emit) {
  const auto& image = images.plan->image_shape();
  const std::int64_t coils = images.data.shape()[0];
  numerics::Shape shape{coils};
  for (auto extent : image) shape.push_back(extent);
  Array<cfloat> out = scan_->compute.allocate<cfloat>(shape);
  images.plan->deapodize(scan_->compute, images.data.view(), out.view());
  if (image.rank() == 2) {
    const std::int64_t planes = images.planes;
    out = out.reshaped({coils / planes, planes, image[0], image[1]});
  }
  emit({images.frame, std::move(out)});
}

}  // namespace echotrain
