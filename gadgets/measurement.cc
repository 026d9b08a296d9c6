#include "gadgets/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gadgets/gadget.h"

namespace echotrain {
namespace {
constexpr double kLargestGrid = 16384;  // points per axis
}

ImageGeometry image_geometry(const protocol::Encoding& encoding) {
  ImageGeometry out;
  out.dims = encoding.encoded.matrix[2] > 1 ? 3 : 2;
  std::array<std::int64_t, 3> padded{}, image{};
  for (std::size_t a = 0; a < 3; ++a) {
    const double encoded_voxels = encoding.encoded.matrix[a], recon_voxels = encoding.recon.matrix[a];
    if (encoded_voxels == 1 && recon_voxels == 1) {  // a slice: its two thicknesses need not agree
      padded[a] = image[a] = 1;
      continue;
    }
    // Transforming to n points over the encoded field of view gives voxels of encoded_fov / n.
    const double wanted = recon_voxels * encoding.encoded.fov_mm[a] / encoding.recon.fov_mm[a];
    image[a] = static_cast<std::int64_t>(encoding.recon.matrix[a]);
    padded[a] = std::max<std::int64_t>(std::llround(wanted), image[a]);
    // A per cent is the rounding of the header's fields of view; beyond that is another geometry. Voxels far finer than
    // the encoded ones would cost more memory than any image is worth.
    if (static_cast<double>(image[a]) > 1.01 * wanted + 0.5 || wanted > kLargestGrid)
      throw ClientError(
          fmt::format("the header's recon space does not fit its encoded space on axis {}: {} voxels over {} mm cannot "
                      "be cut from {} mm",
                      "xyz"[a], encoding.recon.matrix[a], encoding.recon.fov_mm[a], encoding.encoded.fov_mm[a]));
    out.voxel_ratio[a] = encoded_voxels / static_cast<double>(padded[a]);
  }
  out.padded = {padded[2], padded[1], padded[0]};
  out.image = {image[2], image[1], image[0]};
  return out;
}

}  // namespace echotrain
