#include "gadgets/shared/prescan/patient_box.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gadgets/shared/place.h"

namespace echotrain {
namespace {

bool has_directions(const protocol::AcquisitionHeader& head) {
  return distance(read_direction(head), {}) > 0 && distance(phase_direction(head), {}) > 0 &&
         distance(slice_direction(head), {}) > 0;
}

/// The axes x, y, z of a box; where its readouts have no directions, those of `otherwise`.
std::array<Vector, 3> axes_of(const PatientBox& box, const PatientBox& otherwise) {
  const protocol::AcquisitionHeader& head = has_directions(box.head) ? box.head : otherwise.head;
  if (!has_directions(head)) return {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  return {read_direction(head), phase_direction(head), slice_direction(head)};
}

}  // namespace

BoxMapping::BoxMapping(const PatientBox& image, const PatientBox& box) : image_(image.n), box_(box.n) {
  const std::array<Vector, 3> from = axes_of(image, box), to = axes_of(box, image);
  Vector origin = position_of(image.head);
  for (std::size_t i = 0; i < 3; ++i) origin[i] -= position_of(box.head)[i];
  for (std::size_t a = 0; a < 3; ++a) {  // axis of the box, x first
    const double per_mm = static_cast<double>(box.n[2 - a]) / box.fov_mm[a];
    double start = per_mm * dot(origin, to[a]) + static_cast<double>(box.n[2 - a] / 2);
    for (std::size_t b = 0; b < 3; ++b) {
      const double voxel = image.fov_mm[b] / static_cast<double>(image.n[2 - b]);
      const double step = per_mm * voxel * dot(from[b], to[a]);
      step_[2 - b][2 - a] = step;
      start -= step * static_cast<double>(image.n[2 - b] / 2);
    }
    start_[2 - a] = start;
  }
}

double BoxMapping::outside() const {
  const BoxMapping& map = *this;
  const auto centre =
      map(static_cast<double>(image_[0] / 2), static_cast<double>(image_[1] / 2), static_cast<double>(image_[2] / 2));
  bool within = std::isfinite(centre[0]);
  for (const std::size_t a : {1u, 2u}) within = within && centre[a] >= -1 && centre[a] <= static_cast<double>(box_[a]);
  if (!within) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (int corner = 0; corner < 8; ++corner) {
    const auto end = [&](int bit, std::size_t a) { return (corner >> bit & 1) * static_cast<double>(image_[a] - 1); };
    const double z = map(end(0, 0), end(1, 1), end(2, 2))[0];
    if (!std::isfinite(z)) return std::numeric_limits<double>::infinity();
    most = std::max({most, -z, z - static_cast<double>(box_[0] - 1)});
  }
  return most;
}

}  // namespace echotrain
