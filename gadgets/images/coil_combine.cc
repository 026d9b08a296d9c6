#include "gadgets/images/coil_combine.h"

#include "gadgets/numerics/mri/coils/coil.h"
#include "gadgets/numerics/mri/coils/coil_maps.h"

namespace echotrain {

Parameters<CoilCombine::Options> CoilCombine::parameters() {
  return Parameters<Options>()
      .choice(
          "method", &Options::method, {"rss", "adaptive", "none"},
          "rss: root sum of squares. adaptive: by coil maps from the images themselves, which keeps the phase. none: "
          "one image channel per coil")
      .integer("block", &Options::block, 1, numerics::kMostBlock,
               "adaptive: voxels per axis over which coil maps are estimated");
}

void CoilCombine::start(const protocol::Header& /*header*/, Scan& scan) { scan_ = &scan; }

void CoilCombine::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  if (options_.method == "none") {
    emit(std::move(images));
    return;
  }
  const auto& shape = images.data.shape();
  CoilImages out{images.frame, scan_->compute.allocate<cfloat>({1, shape[1], shape[2], shape[3]})};
  if (options_.method == "adaptive") {
    Array<cfloat> maps = scan_->compute.allocate<cfloat>(shape);
    numerics::adaptive_maps(scan_->compute, images.data.view(), static_cast<int>(options_.block), maps.view());
    numerics::combine(scan_->compute, maps.view(), images.data.view(), out.data.view());
    out.noise = images.noise;  // a voxel's maps have length 1
    out.frame = with_notes(*images.frame, {{"coil_combine", "adaptive, block " + std::to_string(options_.block)}});
  } else {
    numerics::root_sum_of_squares(scan_->compute, images.data.view(), out.data.view());
  }
  emit(std::move(out));
}

}  // namespace echotrain
