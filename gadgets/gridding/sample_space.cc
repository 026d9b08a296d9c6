#include "gadgets/gridding/sample_space.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "gadgets/shared/measurement.h"

namespace echotrain {

SampleSpace sample_space(const protocol::Encoding& encoding, const Scan& scan, bool planes) {
  SampleSpace space;
  const ImageGeometry geometry = image_geometry(encoding);
  space.dims = planes ? 2 : geometry.dims;
  space.voxel_ratio = geometry.voxel_ratio;
  space.to_cycles_per_pixel = to_cycles_per_pixel(encoding, scan.trajectory_unit);
  for (std::size_t a = 0; a < 3; ++a) {
    space.matrix[a] = encoding.encoded.matrix[a];
    space.pixel_m[a] = encoding.encoded.fov_mm[a] / space.matrix[a] / 1000;
  }
  return space;
}

std::vector<bool> outside(const std::vector<double>& coordinates, const SampleSpace& space, std::int64_t& dropped,
                          double& largest) {
  const auto dims = static_cast<std::size_t>(space.dims);
  const std::size_t total = coordinates.size() / dims;
  std::vector<bool> out(total);
  for (std::size_t s = 0; s < total; ++s) {
    double k = 0;
    bool beyond_image = false;  // such a sample would alias into an image of coarser voxels
    for (std::size_t a = 0; a < dims; ++a) {
      const double component = std::abs(coordinates[s * dims + a]);
      k = std::max(k, component);
      beyond_image |= component * space.voxel_ratio[a] > kLargestComponent;
      largest = std::max(largest, component / space.to_cycles_per_pixel[a]);
    }
    out[s] = k > kLargestComponent || beyond_image;
    dropped += k > kLargestComponent ? 1 : 0;
  }
  return out;
}

}  // namespace echotrain
