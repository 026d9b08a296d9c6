// A PatientBox is a grid in the patient, of an image or of a prescan, and a BoxMapping leads from one to another.
#pragma once

#include <array>

#include "gadgets/numerics/core/extents.h"
#include "protocol/data/messages.h"

namespace echotrain {

struct PatientBox {
  protocol::AcquisitionHeader head;  ///< position of voxel floor(n/2), directions, table
  std::array<double, 3> fov_mm;      ///< x, y, z
  numerics::Extents n;               ///< z, y, x
};

/// The affine map from the voxels of an image to those of another box, as fractional indices [z, y, x]. Where the
/// readouts of either have no directions, both have the same.
class BoxMapping {
 public:
  BoxMapping(const PatientBox& image, const PatientBox& box);

  std::array<double, 3> operator()(double z, double y, double x) const {
    std::array<double, 3> out = start_;
    for (std::size_t a = 0; a < 3; ++a) out[a] += z * step_[0][a] + y * step_[1][a] + x * step_[2][a];
    return out;
  }
  /// The distance, along the box's z, in its voxels, of the image's corners from the centres of its voxels; infinite
  /// where the image's centre is beside the box in its plane, or is no number.
  double outside() const;

 private:
  numerics::Extents image_, box_;
  std::array<double, 3> start_{};                // z, y, x
  std::array<std::array<double, 3>, 3> step_{};  // [axis of the image: z, y, x][z, y, x]
};

}  // namespace echotrain
