#include "gadgets/images/orient.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "gadgets/numerics/core/layout/rearrange.h"
#include "gadgets/shared/right_angles.h"

namespace echotrain {
namespace {

/// The directions in which the columns and the rows of an image with this normal shall run.
std::pair<Vector, Vector> wanted_directions(const Vector& normal) {
  const double l = std::abs(normal[0]), p = std::abs(normal[1]), s = std::abs(normal[2]);
  if (s >= l && s >= p) return {{1, 0, 0}, {0, 1, 0}};  // axial
  if (p >= l) return {{1, 0, 0}, {0, 0, -1}};           // coronal
  return {{0, 1, 0}, {0, 0, -1}};                       // sagittal
}

}  // namespace

void Orient::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  fields_of_view_ = FieldsOfView(header);
}

void Orient::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  const protocol::AcquisitionHeader& head = images.frame->reference;
  // Direction, extent and voxel size of the image's axes x, y, z.
  const std::array<Vector, 3> directions{read_direction(head), phase_direction(head), slice_direction(head)};
  if (!right_angles(directions)) {
    scan_->warn("the scan's readouts have no directions (read_dir, phase_dir, slice_dir); images are not turned");
    emit(std::move(images));
    return;
  }
  const auto& shape = images.data.shape();  // [coil, z, y, x]
  const std::array<std::int64_t, 3> extents{shape[3], shape[2], shape[1]};
  const std::array<float, 3> fov = fields_of_view_.of(*images.frame);

  const auto [right, down] = wanted_directions(cross(directions[0], directions[1]));
  const bool exchanged = std::abs(dot(directions[1], right)) > std::abs(dot(directions[0], right));
  const std::array<std::size_t, 3> from{exchanged ? 1u : 0u, exchanged ? 0u : 1u, 2u};  // the old axes of x, y, z
  std::array<Vector, 3> turned{directions[from[0]], directions[from[1]], directions[2]};
  std::array<bool, 3> flipped{dot(turned[0], right) < 0, dot(turned[1], down) < 0, false};
  for (std::size_t a = 0; a < 2; ++a)
    if (flipped[a])
      for (double& v : turned[a]) v = -v;
  flipped[2] = dot(turned[2], cross(turned[0], turned[1])) < 0;
  if (flipped[2])
    for (double& v : turned[2]) v = -v;

  const auto frame = std::make_shared<Frame>(*images.frame);
  frame->fov_mm.emplace();
  Vector position = position_of(head);
  numerics::Rearrangement how;
  numerics::Shape to{shape[0]};
  for (std::size_t z = 0; z < 3; ++z) {  // a shape's axes are z, y, x
    const std::size_t a = 2 - z;
    const std::int64_t n = extents[from[a]];
    to.push_back(n);
    how.axis[z] = 2 - static_cast<int>(from[a]);
    how.first[z] = flipped[a] ? n - 1 : 0;
    how.step[z] = flipped[a] ? -1 : 1;
    (*frame->fov_mm)[a] = fov[from[a]];
    if (const auto& k = images.frame->acquired) {
      (*frame->acquired)[2 * a] = flipped[a] ? -(*k)[2 * from[a] + 1] : (*k)[2 * from[a]];
      (*frame->acquired)[2 * a + 1] = flipped[a] ? -(*k)[2 * from[a]] : (*k)[2 * from[a] + 1];
    }
    if (!flipped[a]) continue;
    // Voxel floor(n/2) of the turned image was voxel n - 1 - floor(n/2).
    const double moved = static_cast<double>(n - 1 - 2 * (n / 2)) * fov[from[a]] / static_cast<double>(n);
    for (std::size_t i = 0; i < 3; ++i) position[i] += moved * directions[from[a]][i];
  }
  protocol::AcquisitionHeader& reference = frame->reference;
  for (std::size_t i = 0; i < 3; ++i) {
    reference.read_dir[i] = static_cast<float>(turned[0][i]);
    reference.phase_dir[i] = static_cast<float>(turned[1][i]);
    reference.slice_dir[i] = static_cast<float>(turned[2][i]);
    reference.position[i] = static_cast<float>(position[i]);
  }

  CoilImages out;
  out.frame = frame;
  out.noise = images.noise;
  const bool moves = exchanged || flipped[0] || flipped[1] || (flipped[2] && extents[2] > 1);
  if (moves) {
    out.data = scan_->compute.allocate<cfloat>(to);
    numerics::rearrange(scan_->compute, images.data.view(), how, out.data.view());
  } else {
    out.data = images.data;
  }
  emit(std::move(out));
}

}  // namespace echotrain
