#include "gadgets/numerics/mri/espirit/espirit_sets.h"

#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/mri/coils/coil_maps.h"
#include "gadgets/numerics/mri/coils/coil_regions.h"
#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain::numerics {
namespace {

// Without a second set the image misses at least this share of its energy: an error of sqrt(0.0003) = 1.7 %. Of 80
// measured scans (heads and phantoms, fields of view cut by up to 1.3, noise of up to 0.3 of a coil's signal), those
// whose objects fit leave 0, and those that leave more than this have the smaller error with two sets (SENSE by BART,
// R = 2), or one that differs by less than 2 %. With noise, less energy is not worth the noise of a second image.
constexpr double kLeastShare = 0.0003;

double energy(Context& context, DeviceView<const cfloat> values) {
  const double size = norm(context, values);
  return size * size;
}

/// The images [coil, z, y, x] of the windowed calibration data.
Array<cfloat> calibration_images(Context& context, const EspiritCalibration& c, const Shape& shape) {
  std::array<std::vector<double>, 3> hann;
  for (std::size_t a = 0; a < 3; ++a)
    for (std::int64_t i = 0; i < c.extents[a]; ++i)
      hann[a].push_back(0.5 + 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i - c.extents[a] / 2) /
                                             static_cast<double>(c.extents[a])));
  Array<cfloat> middle = context.allocate<cfloat>({c.coils, c.extents[0], c.extents[1], c.extents[2]});
  cut_region(context, c.kspace, c.first, hann, middle.view());
  Array<cfloat> images = context.allocate<cfloat>(shape);
  centered_fft(context, middle.cview(), images.view(), {shape[1], shape[2], shape[3]}, 3, Direction::inverse, 1);
  return images;
}

}  // namespace

bool needs_second_set(Context& context, const EspiritCalibration& calibration, DeviceView<const cfloat> maps) {
  const std::int64_t coils = calibration.coils;
  if (coils < 3) return false;
  const Shape &m = maps.shape(), of_set{coils, m[1], m[2], m[3]};
  const Array<cfloat> images = calibration_images(context, calibration, of_set);
  Array<cfloat> along = context.allocate<cfloat>({1, m[1], m[2], m[3]});
  const double all = energy(context, images.cview());
  std::array<double, 2> held{}, voxels{};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto set = maps.part(static_cast<std::int64_t>(i) * of_set.size(), of_set);
    combine(context, set, images.cview(), along.view(), /*divide=*/false);
    held[i] = energy(context, along.cview());
    voxels[i] = energy(context, set);
  }
  const double dimensions = static_cast<double>(of_set.size()) - voxels[0] - voxels[1];  // above 0: coils > 2
  const double noise = (all - held[0] - held[1]) / dimensions;
  return held[1] - voxels[1] * static_cast<double>(coils - 1) * noise > kLeastShare * all;
}

}  // namespace echotrain::numerics
