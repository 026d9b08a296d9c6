#include "protocol/nifti/nifti_series.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <tuple>

namespace echotrain::protocol::nifti {
namespace {

constexpr double kUneven = 0.01;  // of the slices' distance
// The precision that float32 leaves of directions, and of places within a metre [mm].
constexpr double kSameDirection = 1e-3, kSamePlace = 1e-3;
// Motion that a scanner follows turns volumes by some degrees and moves them by some millimetres.
constexpr double kSameVolume = 0.1, kMostMoved = 20;

double along_normal(const ImageHeader& head) {
  const auto normal = directions_of(head)[2];
  double sum = 0;
  for (std::size_t a = 0; a < 3; ++a) sum += normal[a] * head.position[a];
  return sum;
}

void require_known_places(const std::vector<ImageHeader>& heads) {
  for (const ImageHeader& head : heads)
    for (std::size_t a = 0; a < 3; ++a)  // of a header as on the wire: its floats may lie at any even address
      for (const float value :
           {head.read_dir[a], head.phase_dir[a], head.slice_dir[a], head.position[a], head.field_of_view[a]})
        if (!std::isfinite(value))
          throw std::runtime_error("has images whose position, directions or field of view are not finite numbers");
}

void require_one_orientation(const ImageHeader& one, const ImageHeader& other, double tolerance) {
  const Directions a = directions_of(one), b = directions_of(other);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t k = 0; k < 3; ++k)
      if (std::abs(a[i][k] - b[i][k]) > tolerance)
        throw std::runtime_error("has images of several orientations; one NIfTI file cannot hold them");
}

void require_one_size(const std::vector<ImageHeader>& heads) {
  for (const ImageHeader& head : heads)
    if (!std::equal(std::begin(head.matrix_size), std::end(head.matrix_size), std::begin(heads[0].matrix_size)) ||
        +head.channels != +heads[0].channels)
      throw std::runtime_error("has images of several sizes; one NIfTI file cannot hold them");
  for (const ImageHeader& head : heads)
    for (std::size_t a = 0; a < 3; ++a)
      if (std::abs(head.field_of_view[a] - heads[0].field_of_view[a]) > kSamePlace)
        throw std::runtime_error("has images of several fields of view; one NIfTI file cannot hold them");
}

std::vector<std::vector<std::size_t>> volumes_of(const std::vector<ImageHeader>& heads) {
  std::map<std::tuple<int, int, int, int, int>, std::map<int, std::size_t>> slices;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const ImageHeader& h = heads[i];
    const bool fresh = slices[{h.set, h.contrast, h.repetition, h.phase, h.average}].emplace(+h.slice, i).second;
    if (!fresh)
      throw std::runtime_error(
          "has several images of the same counters (slice, contrast, phase, repetition, set), so they make no NIfTI "
          "volume");
  }
  std::vector<std::vector<std::size_t>> volumes;
  for (const auto& [counters, numbers] : slices) {
    std::vector<std::size_t>& volume = volumes.emplace_back();
    for (const auto& [slice, number] : numbers) volume.push_back(number);
    std::stable_sort(volume.begin(), volume.end(),
                     [&](std::size_t a, std::size_t b) { return along_normal(heads[a]) < along_normal(heads[b]); });
    if (volume.size() != volumes[0].size()) throw std::runtime_error("lacks slices of some of its volumes");
  }
  return volumes;
}

/// The mean distance of a volume's slices; 0 for one slice, and where the positions do not tell.
double slice_distance(const std::vector<ImageHeader>& heads, const std::vector<std::size_t>& volume) {
  if (volume.size() < 2) return 0;
  const double first = along_normal(heads[volume.front()]);
  const double step = (along_normal(heads[volume.back()]) - first) / static_cast<double>(volume.size() - 1);
  const auto normal = directions_of(heads[volume.front()])[2];
  for (std::size_t s = 0; s < volume.size(); ++s) {
    const ImageHeader& head = heads[volume[s]];
    require_one_orientation(heads[volume.front()], head, kSameDirection);
    const double along = step * static_cast<double>(s);
    if (std::abs(along_normal(head) - first - along) > kUneven * step + kSamePlace)
      throw std::runtime_error("has slices whose distances differ; one NIfTI volume cannot hold them");
    for (std::size_t a = 0; a < 3; ++a)
      if (std::abs(head.position[a] - heads[volume.front()].position[a] - along * normal[a]) >
          kUneven * step + kSamePlace)
        throw std::runtime_error("has slices that are shifted against each other; one NIfTI volume cannot hold them");
  }
  return step;
}

}  // namespace

Arrangement arrange(const std::vector<ImageHeader>& heads) {
  if (heads.empty()) throw std::runtime_error("has no images");
  require_known_places(heads);
  require_one_size(heads);
  Arrangement out{volumes_of(heads), {}};
  const std::vector<std::size_t>& volume = out.volumes.front();
  const ImageHeader& first = heads[volume.front()];
  if (volume.size() > 1 && first.matrix_size[2] > 1)
    throw std::runtime_error("has several slabs; one NIfTI volume cannot hold them");
  for (const std::vector<std::size_t>& each : out.volumes) {
    slice_distance(heads, each);
    require_one_orientation(first, heads[each.front()], kSameVolume);
    for (std::size_t a = 0; a < 3; ++a)
      if (std::abs(heads[each.front()].position[a] - first.position[a]) > kMostMoved)
        throw std::runtime_error("has volumes at several places; one NIfTI file cannot hold them");
  }
  out.shape.affine = affine_of(first, slice_distance(heads, volume));
  out.shape.size = {first.matrix_size[0], first.matrix_size[1], volume.size() * first.matrix_size[2],
                    out.volumes.size()};
  if (*std::max_element(out.shape.size.begin(), out.shape.size.end()) > kMostAlongAxis)
    throw std::runtime_error("has more planes or images than NIfTI-1 holds (32767 along an axis)");
  return out;
}

}  // namespace echotrain::protocol::nifti
