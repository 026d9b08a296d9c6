#include "gadgets/least_squares/middle_of_block.h"

#include <algorithm>
#include <vector>

#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain {
namespace {

/// Axis a of [z, y, x] of a block.
struct Axis {
  std::int64_t extent;  // extent of the block
  std::int64_t before;  // samples below the centre
  bool whole;           // the block has all samples of the matrix

  Axis(const Calibration& block, std::size_t a)
      : extent(block.data.shape()[a + 1]),
        before(block.matrix[2 - a] / 2 - block.first[2 - a]),
        whole(extent == block.matrix[2 - a]) {}
  /// The largest box with its centre at floor(n / 2) inside the block.
  std::int64_t centred() const { return std::min(2 * before + 1, 2 * (extent - before)); }
};

}  // namespace

std::array<std::int64_t, 3> extents_of_middle(const Calibration& block, const numerics::Shape& padded,
                                              const numerics::Shape& image, std::int64_t most) {
  std::array<std::int64_t, 3> extents{};
  for (std::size_t a = 0; a < 3; ++a) {
    const Axis axis(block, a);
    std::int64_t usable = std::min(axis.centred(), padded[a]);
    if (padded[a] != image[a]) usable = usable * image[a] / padded[a] - (axis.whole ? 0 : 2);
    extents[a] = std::min({most, image[a], usable});
  }
  return extents;
}

Array<cfloat> middle_of_block(numerics::Context& compute, const Calibration& block, const numerics::Shape& padded,
                              const numerics::Shape& image, std::int64_t most) {
  const auto& n = block.data.shape();
  const auto extents = extents_of_middle(block, padded, image, most);
  // The extents to cut from the block; axes whose field of view is cut keep all samples about the centre.
  numerics::Shape cut{n[0]}, transformed, images{n[0]}, lattice, middle{n[0]};
  bool cuts = false;
  for (std::size_t a = 0; a < 3; ++a) {
    const bool other_fov = padded[a] != image[a];
    cuts = cuts || other_fov;
    cut.push_back(other_fov ? std::min(Axis(block, a).centred(), padded[a]) : extents[a]);
    transformed.push_back(other_fov ? padded[a] : extents[a]);
    lattice.push_back(other_fov ? image[a] : extents[a]);
    images.push_back(lattice[a]);
    middle.push_back(extents[a]);
  }
  const HostArray<cfloat> host = compute.download<cfloat>(block.data.view());
  std::vector<cfloat> samples;
  samples.reserve(static_cast<std::size_t>(cut.size()));
  const auto first = [&](std::size_t a) { return Axis(block, a).before - cut[a + 1] / 2; };
  for (std::int64_t coil = 0; coil < n[0]; ++coil) {
    compute.check_stop();
    for (std::int64_t z = first(0); z < first(0) + cut[1]; ++z)
      for (std::int64_t y = first(1); y < first(1) + cut[2]; ++y) {
        const cfloat* row = host.data() + ((coil * n[1] + z) * n[2] + y) * n[3] + first(2);
        samples.insert(samples.end(), row, row + cut[3]);
      }
  }
  Array<cfloat> kspace = compute.upload<cfloat>({samples.data(), cut});
  if (!cuts) return kspace;
  Array<cfloat> at_images = compute.allocate<cfloat>(images), to = compute.allocate<cfloat>(middle);
  numerics::centered_fft(compute, kspace.view(), at_images.view(), transformed, 3, numerics::Direction::inverse,
                         1.0f / static_cast<float>(transformed.size()));
  numerics::centered_fft(compute, at_images.view(), to.view(), lattice, 3, numerics::Direction::forward, 1);
  return to;
}

}  // namespace echotrain
