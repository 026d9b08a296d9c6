#include "protocol/nifti/nifti_header.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace echotrain::protocol::nifti {
namespace {

static_assert(std::endian::native == std::endian::little, "fields are written as they lie in memory");

constexpr std::size_t kHeaderBytes = 348, kVoxelsAt = 352;

template <class T>
void put(std::vector<char>& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

}  // namespace

Directions directions_of(const ImageHeader& head) {
  Directions directions{};
  for (std::size_t i = 0; i < 3; ++i) {
    directions[0][i] = head.read_dir[i];
    directions[1][i] = head.phase_dir[i];
    directions[2][i] = head.slice_dir[i];
  }
  for (std::size_t a = 0; a < 3; ++a)
    if (directions[a] == std::array<double, 3>{}) directions[a][a] = 1;
  return directions;
}

Affine affine_of(const ImageHeader& head, double slice_mm) {
  const Directions directions = directions_of(head);
  Affine out{};
  for (std::size_t row = 0; row < 3; ++row) {
    const double sign = row < 2 ? -1 : 1;  // LPS to RAS
    const std::array<double, 3> direction{directions[0][row], directions[1][row], directions[2][row]};
    double origin = head.position[row];
    for (std::size_t a = 0; a < 3; ++a) {
      const double n = std::max<int>(1, head.matrix_size[a]);
      const double voxel = a == 2 && slice_mm > 0 ? slice_mm : head.field_of_view[a] / n;
      out[row][a] = sign * direction[a] * voxel;
      origin -= direction[a] * voxel * std::floor(n / 2);
    }
    out[row][3] = sign * origin;
  }
  return out;
}

std::vector<char> header_bytes(const Shape& shape) {
  std::vector<char> header(kVoxelsAt, 0);
  put(header, 0, std::int32_t{kHeaderBytes});
  // dim: rank, then extents; pixdim: voxel sizes from its second element on.
  const bool series = shape.size[3] > 1;
  put(header, 40, static_cast<std::int16_t>(series ? 4 : 3));
  for (std::size_t a = 0; a < 7; ++a) {
    const std::size_t extent = a < 4 ? shape.size[a] : 1;
    if (extent > kMostAlongAxis) throw std::invalid_argument("NIfTI-1 holds at most 32767 voxels per axis");
    put(header, 42 + 2 * a, static_cast<std::int16_t>(extent));
  }
  put(header, 70, static_cast<std::int16_t>(shape.is_complex ? 32 : 16));  // datatype
  put(header, 72, static_cast<std::int16_t>(shape.is_complex ? 64 : 32));  // bitpix
  put(header, 76, 1.0f);                                                   // pixdim[0]: right-handed
  for (std::size_t a = 0; a < 3; ++a) {
    double square = 0;
    for (std::size_t row = 0; row < 3; ++row) square += shape.affine[row][a] * shape.affine[row][a];
    put(header, 80 + 4 * a, static_cast<float>(std::sqrt(square)));
  }
  put(header, 92, 1.0f);                             // pixdim[4]: images are numbered, their times are not known
  put(header, 108, static_cast<float>(kVoxelsAt));   // vox_offset
  put(header, 112, 1.0f);                            // scl_slope; scl_inter is 0
  put(header, 123, char{2});                         // xyzt_units: mm
  std::memcpy(header.data() + 148, "echotrain", 9);  // descrip
  put(header, 254, std::int16_t{1});                 // sform_code: scanner coordinates; qform_code is 0
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t column = 0; column < 4; ++column)
      put(header, 280 + 16 * row + 4 * column, static_cast<float>(shape.affine[row][column]));
  std::memcpy(header.data() + 344, "n+1", 4);
  return header;
}

}  // namespace echotrain::protocol::nifti
