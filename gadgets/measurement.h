// Facts of a measurement that several gadgets need, worked out from its header.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "gadgets/numerics/array.h"
#include "protocol/header.h"

namespace echotrain {

/// How one encoding space becomes an image.
struct ImageGeometry {
  int dims = 2;  ///< 3 when the encoded matrix has more than one step-2 plane
  numerics::Shape
      padded;  ///< [z, y, x]: extents to transform encoded k-space with so that voxels have the recon space's size
  numerics::Shape image;  ///< [z, y, x]: the recon matrix
  /// Per axis x, y, z: recon voxel size / encoded voxel size. k in cycles/encoded pixel times this is cycles/image
  /// pixel.
  std::array<double, 3> voxel_ratio{1, 1, 1};
};

/// ClientError when the recon space cannot be cut from the encoded one with voxels of its size.
ImageGeometry image_geometry(const protocol::Encoding& encoding);

}  // namespace echotrain
