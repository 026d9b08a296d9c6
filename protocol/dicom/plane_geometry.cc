#include "protocol/dicom/plane_geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "protocol/dicom/values.h"

namespace echotrain::protocol::dicom {
namespace {

using Vector = std::array<double, 3>;

constexpr double kSkew = 1e-3;

double dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

Vector cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

Vector add(const Vector& a, double factor, const Vector& b) {
  return {a[0] + factor * b[0], a[1] + factor * b[1], a[2] + factor * b[2]};
}

/// A direction of the header with length 1; `otherwise` where the sender left it at zero.
Vector direction(const float* from, const Vector& otherwise, const char* name) {
  const Vector given{from[0], from[1], from[2]};
  const double length = std::sqrt(dot(given, given));
  if (!std::isfinite(length))
    throw DicomError(fmt::format("the image's {} is not finite, so its orientation is not known", name));
  if (length == 0) return otherwise;
  return {given[0] / length, given[1] / length, given[2] / length};
}

}  // namespace

PlaneGeometry plane_geometry(const ImageHeader& head, std::size_t z) {
  Vector voxel{};
  Vector half{};
  for (std::size_t a = 0; a < 3; ++a) {
    const int n = std::max<int>(1, head.matrix_size[a]);
    voxel[a] = static_cast<double>(head.field_of_view[a]) / n;
    half[a] = n / 2;
    if (!std::isfinite(voxel[a]) || voxel[a] <= 0)
      throw DicomError(
          fmt::format("the image's field of view is {} mm along {}, and DICOM needs the size of its voxels",
                      +head.field_of_view[a], "xyz"[a]));
    if (!std::isfinite(head.position[a])) throw DicomError("the image's position is not finite");
  }
  PlaneGeometry out;
  out.row = direction(head.read_dir, {1, 0, 0}, "read_dir");
  const Vector down = direction(head.phase_dir, {0, 1, 0}, "phase_dir");
  const double skew = dot(out.row, down);
  if (std::abs(skew) > kSkew)
    throw DicomError(
        fmt::format("the image's read_dir and phase_dir are not at right angles (their product is {:.4f})", skew));
  out.column = add(down, -skew, out.row);
  const double length = std::sqrt(dot(out.column, out.column));
  for (double& component : out.column) component /= length;
  const Vector through = direction(head.slice_dir, cross(out.row, out.column), "slice_dir");
  out.position = add({head.position[0], head.position[1], head.position[2]},
                     (static_cast<double>(z) - half[2]) * voxel[2], through);
  out.position = add(out.position, -half[0] * voxel[0], out.row);
  out.position = add(out.position, -half[1] * voxel[1], out.column);
  out.spacing = {voxel[1], voxel[0]};
  out.thickness = voxel[2];
  return out;
}

}  // namespace echotrain::protocol::dicom
