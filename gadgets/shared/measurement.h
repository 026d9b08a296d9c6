// Facts of a measurement that several gadgets need, computed from its header.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/pipeline_spec.h"
#include "gadgets/api/items.h"
#include "gadgets/numerics/core/array.h"
#include "protocol/data/header.h"

namespace echotrain {

class Scan;

/// The conversion of one encoding space to an image.
struct ImageGeometry {
  int dims = 2;  ///< 3 when the encoded matrix has more than one step-2 plane
  numerics::Shape
      padded;  ///< [z, y, x]: extents to transform encoded k-space with so that voxels have the recon space's size
  numerics::Shape image;  ///< [z, y, x]: the recon matrix
  /// Per axis x, y, z: recon voxel size / encoded voxel size. k in cycles/encoded pixel times this is cycles/image
  /// pixel.
  std::array<double, 3> voxel_ratio{1, 1, 1};

  /// The image's extents in `dims` dimensions: [z, y, x] or [y, x]; with `coils`, these after it.
  numerics::Shape extents(std::int64_t coils = 0) const {
    numerics::Shape out;
    if (coils > 0) out.push_back(coils);
    for (auto a = static_cast<std::size_t>(3 - dims); a < 3; ++a) out.push_back(image[a]);
    return out;
  }
};

/// Computes the geometry. Throws ClientError when the recon space cannot be cut from the encoded one with voxels of its
/// size.
ImageGeometry image_geometry(const protocol::Encoding& encoding);

/// The fields of view of images.
class FieldsOfView {
 public:
  FieldsOfView() = default;
  explicit FieldsOfView(const protocol::Header& header);
  /// x, y, z [mm]: the frame's own if a gadget changed it, else that of the recon space of its encoding.
  std::array<float, 3> of(const Frame& frame) const;

 private:
  std::vector<std::array<float, 3>> recon_;  // per encoding
};

/// A vector in the patient's coordinates, copied out of headers, whose floats lie at any even address.
using Vector = std::array<double, 3>;
inline Vector position_of(const protocol::AcquisitionHeader& head) {
  return {head.position[0], head.position[1], head.position[2]};
}
inline Vector read_direction(const protocol::AcquisitionHeader& head) {
  return {head.read_dir[0], head.read_dir[1], head.read_dir[2]};
}
inline Vector phase_direction(const protocol::AcquisitionHeader& head) {
  return {head.phase_dir[0], head.phase_dir[1], head.phase_dir[2]};
}
inline Vector slice_direction(const protocol::AcquisitionHeader& head) {
  return {head.slice_dir[0], head.slice_dir[1], head.slice_dir[2]};
}
inline double dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
inline Vector cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

/// The offset that turns an encoding step into its row among `n`, with the k-space centre at floor(n/2). Throws
/// ClientError, naming the counter `what`, when the header's limits do not fit; warns when they leave the centre at 0.
std::int64_t row_offset(const std::optional<protocol::CounterLimit>& limit, std::int64_t n, const char* what,
                        Scan& scan);

inline constexpr const char* kUnusedCalibration = "the scan holds calibration readouts; they are not used for images";
/// Tells the client that this pipeline uses no calibration readouts, if `readouts` are calibration.
void note_unused_calibration(const Readouts& readouts, Scan& scan);

/// The factors that turn a trajectory's components x, y, z into cycles/pixel of the encoded matrix.
std::array<double, 3> to_cycles_per_pixel(const protocol::Encoding& encoding, config::TrajectoryUnit unit);

}  // namespace echotrain
