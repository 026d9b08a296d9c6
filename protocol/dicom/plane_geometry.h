// The plane geometry is the position and orientation of an image's planes, as in DICOM's Image Plane module (PS3.3
// C.7.6.2).
#pragma once

#include <array>
#include <cstddef>

#include "protocol/data/messages.h"

namespace echotrain::protocol::dicom {

/// A plane in patient coordinates [mm]: x to the left, y to the back, z to the head (LPS), which are ISMRMRD's as well.
struct PlaneGeometry {
  std::array<double, 3> position{};  ///< centre of the first voxel that is stored
  std::array<double, 3> row{};       ///< unit vector along a row: of rising column index (the image's x)
  std::array<double, 3> column{};    ///< unit vector along a column: of rising row index (the image's y)
  std::array<double, 2> spacing{};   ///< between rows, between columns
  double thickness = 0;              ///< field of view / matrix along z
};

/// Returns the geometry of plane `z` of an image. The header's `position` is the place of voxel floor(n/2) on each axis
/// (docs/conventions.md), so the first voxel of plane z lies at position + slice_dir (z - floor(nz/2)) dz - read_dir
/// floor(nx/2) dx - phase_dir floor(ny/2) dy. Directions that a sender left at zero are taken as L and P, and for z as
/// their cross product. Throws DicomError when the field of view or the position cannot be used, or read and phase
/// direction are not at right angles (1e-3), as DICOM requires.
PlaneGeometry plane_geometry(const ImageHeader& head, std::size_t z);

}  // namespace echotrain::protocol::dicom
