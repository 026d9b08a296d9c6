#include "gadgets/images/kspace/acquired_extent.h"

namespace echotrain {

AcquiredExtent::AcquiredExtent(const protocol::Header& header) : fields_of_view_(header) {
  for (const auto& encoding : header.encodings) {
    std::array<double, 3> voxel{};
    for (std::size_t a = 0; a < 3; ++a) voxel[a] = encoding.encoded.fov_mm[a] / encoding.encoded.matrix[a];
    voxel_mm_.push_back(voxel);
    matrix_.push_back(encoding.encoded.matrix);
  }
}

std::array<std::optional<AcquiredExtent::Range>, 3> AcquiredExtent::of(const Frame& frame) const {
  std::array<std::optional<Range>, 3> out;
  if (!frame.acquired) return out;
  const auto fov = fields_of_view_.of(frame);
  const std::size_t encoding = frame.key.encoding;
  for (std::size_t a = 0; a < 3; ++a) {
    if (matrix_.at(encoding)[a] == 1) continue;
    const double steps = fov[a] / voxel_mm_[encoding][a];  // the encoded matrix, in steps of the image's k-space
    const auto k = [&](std::size_t i) { return static_cast<double>((*frame.acquired)[i]) * steps; };
    out[2 - a] = Range{k(2 * a), k(2 * a + 1), steps};
  }
  return out;
}

}  // namespace echotrain
