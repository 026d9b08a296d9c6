#include "gadgets/images/resize.h"

#include <fmt/format.h>

#include "gadgets/numerics/core/layout/rearrange.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {

Parameters<Resize::Options> Resize::parameters() {
  constexpr std::int64_t kMost = 4096;
  return Parameters<Options>()
      .integer("matrix_x", &Options::matrix_x, 0, kMost, "voxels along x over the whole field of view; 0: unchanged")
      .integer("matrix_y", &Options::matrix_y, 0, kMost, "the same along y")
      .integer("matrix_z", &Options::matrix_z, 0, kMost, "the same along z; not for single slices")
      .integer("crop_x", &Options::crop_x, 0, kMost, "voxels kept along x, about the centre; 0: all")
      .integer("crop_y", &Options::crop_y, 0, kMost, "the same along y")
      .integer("crop_z", &Options::crop_z, 0, kMost, "the same along z");
}

void Resize::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  fields_of_view_ = FieldsOfView(header);
}

void Resize::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  numerics::Context& compute = scan_->compute;
  const auto& shape = images.data.shape();  // [coil, z, y, x]
  const std::array<std::int64_t, 3> matrix{options_.matrix_z, options_.matrix_y, options_.matrix_x};
  const std::array<std::int64_t, 3> crop{options_.crop_z, options_.crop_y, options_.crop_x};
  numerics::Shape whole, kept{shape[0]};
  bool interpolate = false, cut = false;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t n = shape[a + 1], wanted = matrix[a] == 0 ? n : matrix[a];
    if (n == 1 && wanted > 1) throw ClientError("resize cannot interpolate single slices along z; see stack_slices");
    interpolate |= wanted != n;
    whole.push_back(wanted);
    if (crop[a] > wanted)
      throw ClientError(fmt::format("resize cannot crop {} voxels out of {} along {}", crop[a], wanted, "zyx"[a]));
    kept.push_back(crop[a] == 0 ? wanted : crop[a]);
    cut |= kept[a + 1] != wanted;
  }
  if (!interpolate && !cut) {
    emit(std::move(images));
    return;
  }
  if (interpolate && are_phases(*images.frame, *scan_, kName)) return emit(std::move(images));
  CoilImages out;
  out.data = compute.allocate<cfloat>(kept);
  if (interpolate) {
    Array<cfloat> kspace = compute.allocate<cfloat>(shape);
    const bool flat = shape[1] == 1;
    const auto view = [&](auto images_of) {  // a slice is transformed in 2D
      const auto s = images_of.shape();
      return flat ? images_of.reshaped({s[0], s[2], s[3]}) : images_of;
    };
    const auto extents = [&](std::int64_t z, std::int64_t y, std::int64_t x) {
      return flat ? numerics::Shape{y, x} : numerics::Shape{z, y, x};
    };
    const int dims = flat ? 2 : 3;
    numerics::centered_fft(compute, view(images.data.cview()), view(kspace.view()),
                           extents(shape[1], shape[2], shape[3]), dims, numerics::Direction::forward,
                           1.0f / static_cast<float>(shape[1] * shape[2] * shape[3]));
    numerics::centered_fft(compute, view(kspace.cview()), view(out.data.view()), extents(whole[0], whole[1], whole[2]),
                           dims, numerics::Direction::inverse, 1.0f);
  } else {
    numerics::Rearrangement middle;
    for (std::size_t a = 0; a < 3; ++a) middle.first[a] = whole[a] / 2 - kept[a + 1] / 2;
    numerics::rearrange(compute, images.data.view(), middle, out.data.view());
    out.noise = images.noise;
  }
  const auto frame = std::make_shared<Frame>(*images.frame);
  frame->fov_mm = fields_of_view_.of(*images.frame);
  for (std::size_t a = 0; a < 3; ++a)
    (*frame->fov_mm)[2 - a] *= static_cast<float>(kept[a + 1]) / static_cast<float>(whole[a]);
  out.frame = frame;
  emit(std::move(out));
}

}  // namespace echotrain
