// The NIfTI-1 header is the bytes that precede the voxels of a file.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "protocol/data/messages.h"

namespace echotrain::protocol::nifti {

/// The map from voxel indices (i, j, k) to millimetres in NIfTI's coordinates: x to the right, y to the front, z to the
/// head (RAS+). Row-major, 3 x 4.
using Affine = std::array<std::array<double, 4>, 3>;

/// read_dir, phase_dir, slice_dir. Those that a sender left at zero are taken as L, P, S.
using Directions = std::array<std::array<double, 3>, 3>;
Directions directions_of(const ImageHeader& head);

/// Returns the affine of an image whose voxel floor(n/2) lies at the header's position and whose axes are
/// directions_of() it. ISMRMRD's coordinates are LPS: the first two change sign. `slice_mm`: distance between planes;
/// 0: field of view / matrix.
Affine affine_of(const ImageHeader& head, double slice_mm = 0);

struct Shape {
  std::array<std::size_t, 4> size{1, 1, 1, 1};  ///< x, y, z, images
  bool is_complex = false;                      ///< complex64 (datatype 32), else float32 (16)
  Affine affine{};
};

/// The most voxels or images along an axis.
inline constexpr std::size_t kMostAlongAxis = 32767;

/// Returns the 348-byte header (little-endian, sizeof_hdr 348, magic "n+1") and four bytes that say that there are no
/// extensions; the voxels come next, x fastest. Geometry is the sform (sform_code 1, scanner coordinates); the qform is
/// left unknown. pixdim holds voxel sizes in mm. Throws std::invalid_argument for an extent above kMostAlongAxis.
std::vector<char> header_bytes(const Shape& shape);

}  // namespace echotrain::protocol::nifti
