#include "gadgets/numerics/mri/images/non_local_means.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/mri/images/non_local_means_ops.h"

namespace echotrain::numerics {
namespace {

void check(const Shape& image, const Shape& to, const NonLocalMeans& how, bool complex) {
  if (image.rank() != 3 || !(to == image))
    throw std::invalid_argument(
        fmt::format("non_local_means: expected two images [z, y, x], got {} and {}", image.text(), to.text()));
  if (how.patch < 0 || how.patch > 8 || how.search < 1 || how.search > 32)
    throw std::invalid_argument(fmt::format(
        "non_local_means: expected a patch of 0..8 and a search of 1..32, got {} and {}", how.patch, how.search));
  if (!(how.deviation > 0 && std::isfinite(how.deviation) && how.strength > 0 && std::isfinite(how.strength)))
    throw std::invalid_argument(fmt::format(
        "non_local_means: expected a deviation and a strength above 0, got {} and {}", how.deviation, how.strength));
  if (how.rician && complex) throw std::invalid_argument("non_local_means: complex images have no Rician noise");
}

LocalMeans prepared(const Extents& n, int parts, const NonLocalMeans& how) {
  LocalMeans out{n, parts, {}, {}, 0, 0, 0, -1};
  double voxels = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    const bool used = n[a] > 1 && !(a == 0 && how.by_planes);
    out.patch[a] = used ? how.patch : 0;
    out.search[a] = used ? how.search : 0;
    voxels *= 2 * out.patch[a] + 1;
  }
  const double square = static_cast<double>(how.deviation) * how.deviation, variance = parts * square;
  out.scale = static_cast<float>(1 / voxels);
  out.spared = static_cast<float>(2 * variance);
  out.steepness = static_cast<float>(1 / (variance * how.strength * how.strength));
  if (how.rician) out.bias = static_cast<float>(2 * square);
  return out;
}

void run(Context& context, const float* image, const Shape& shape, int parts, const NonLocalMeans& how, float* to) {
  if (shape.size() == 0) return;
  const LocalMeans means = prepared(last_axes(shape, 3), parts, how);
  ECHOTRAIN_DISPATCH(context, non_local_means(context, image, means, to));
}

float deviation_of(Context& context, const float* image, const Shape& shape, int parts) {
  constexpr double kMedianOfNormal = 0.674489750196082;  // median magnitude of a normal variable of deviation 1
  const Extents n = last_axes(shape, 3);
  const Shape blocks{n[0], n[1] / 2, n[2] / 2, parts};
  if (blocks.size() == 0) return 0;
  Array<float> sizes = context.allocate<float>(blocks);
  ECHOTRAIN_DISPATCH(context, details(context, image, n, parts, sizes.data()));
  const double median = quantile(context, sizes.cview(), 0.5);
  return median > 0 ? static_cast<float>(median / kMedianOfNormal) : 0.0f;  // NaN: all values are zero
}

void require_image(const Shape& image) {
  if (image.rank() != 3)
    throw std::invalid_argument(fmt::format("noise_deviation: expected an image [z, y, x], got {}", image.text()));
}

}  // namespace

void non_local_means(Context& context, DeviceView<const float> image, const NonLocalMeans& how, DeviceView<float> to) {
  check(image.shape(), to.shape(), how, false);
  run(context, image.data(), image.shape(), 1, how, to.data());
}

void non_local_means(Context& context, DeviceView<const cfloat> image, const NonLocalMeans& how,
                     DeviceView<cfloat> to) {
  check(image.shape(), to.shape(), how, true);
  run(context, reinterpret_cast<const float*>(image.data()), image.shape(), 2, how,
      reinterpret_cast<float*>(to.data()));
}

float noise_deviation(Context& context, DeviceView<const float> image) {
  require_image(image.shape());
  return deviation_of(context, image.data(), image.shape(), 1);
}

float noise_deviation(Context& context, DeviceView<const cfloat> image) {
  require_image(image.shape());
  return deviation_of(context, reinterpret_cast<const float*>(image.data()), image.shape(), 2);
}

}  // namespace echotrain::numerics
