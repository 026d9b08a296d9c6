#include "gadgets/numerics/transforms/scatter/scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/transforms/scatter/scatter_ops.h"

namespace echotrain::numerics {
namespace {

void require(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("scatter: " + problem);
}

/// Checks the arguments. Returns the number of samples.
std::int64_t check_positions(const Context& context, const ScatterNufft::Impl& impl,
                             DeviceView<const double> coordinates, DeviceView<const float> weights) {
  require(context.backend() == impl.backend, "it was made for another backend");
  require(coordinates.shape().rank() == 2 && coordinates.shape()[1] == 2,
          "expected coordinates of shape [sample, 2], got " + coordinates.shape().text());
  const std::int64_t n = coordinates.shape()[0];
  require(n < INT32_MAX, "too many samples for one frame");
  require(weights.size() == 0 || weights.size() == n, fmt::format("{} weights for {} samples", weights.size(), n));
  return n;
}

}  // namespace

ScatterNufft::ScatterNufft(Context& context, const Shape& image, const NufftOptions& options, std::int64_t channels)
    : impl_(std::make_unique<Impl>()) {
  constexpr std::int64_t kLongest = 8192;
  require(image.rank() == 2, "an image has two axes, not " + image.text());
  for (const auto e : image) require(e >= 1 && e <= kLongest, "no image can be " + image.text());
  require(channels >= 1, fmt::format("no samples have {} channels", channels));
  require(options.kernel_width >= NufftOptions::kNarrowest && options.kernel_width <= NufftOptions::kWidest,
          fmt::format("the kernel width must be {}..{}, not {}", NufftOptions::kNarrowest, NufftOptions::kWidest,
                      options.kernel_width));
  require(options.oversampling >= NufftOptions::kLeastOversampling &&
              options.oversampling <= NufftOptions::kMostOversampling,
          fmt::format("the oversampling must be {}..{}, not {}", NufftOptions::kLeastOversampling,
                      NufftOptions::kMostOversampling, options.oversampling));
  Impl& impl = *impl_;
  impl.image = image;
  impl.backend = context.backend();
  impl.channels = channels;
  impl.tiling = make_tiling(image, options, default_tuning(2, context.backend()));
  impl.grid = {impl.tiling.grid[1], impl.tiling.grid[2]};
  const std::vector<float> factors = deapodization_factors(impl.tiling);
  impl.deapodization = context.upload<float>({factors.data(), {static_cast<std::int64_t>(factors.size())}});
  impl.on_grid = context.allocate<cfloat>({channels, impl.grid[0], impl.grid[1]});
  ECHOTRAIN_DISPATCH(context, scatter_prepare(context, impl));
}
ScatterNufft::~ScatterNufft() = default;

const Shape& ScatterNufft::image_shape() const { return impl_->image; }
const Shape& ScatterNufft::grid_shape() const { return impl_->grid; }
std::int64_t ScatterNufft::channels() const { return impl_->channels; }

void ScatterNufft::adjoint(Context& context, DeviceView<const double> coordinates, DeviceView<const cfloat> samples,
                           DeviceView<const float> weights, DeviceView<cfloat> image) {
  Impl& impl = *impl_;
  const std::int64_t n = check_positions(context, impl, coordinates, weights);
  require(samples.shape().rank() == 2 && samples.shape()[0] == n,
          fmt::format("expected samples of shape [{}, coil], got {}", n, samples.shape().text()));
  const std::int64_t coils = samples.shape()[1];
  require(coils >= 1 && coils <= impl.channels,
          fmt::format("expected samples of 1 to {} coils, got {}", impl.channels, coils));
  require(image.shape() == Shape({coils, impl.image[0], impl.image[1]}),
          fmt::format("{} is not [{} coils] of {}", image.shape().text(), coils, impl.image.text()));
  const ScatterJob job{.coordinates = coordinates.data(),
                       .count = n,
                       .samples = samples.data(),
                       .weights = weights.size() == 0 ? nullptr : weights.data(),
                       .channels = coils};
  ECHOTRAIN_DISPATCH(context, scatter(context, impl, job));
  ECHOTRAIN_DISPATCH(context, scattered_images(context, impl, coils, image.data()));
}

void ScatterNufft::lags(Context& context, DeviceView<const double> coordinates, DeviceView<const float> weights,
                        DeviceView<cfloat> to) {
  Impl& impl = *impl_;
  const std::int64_t n = check_positions(context, impl, coordinates, weights);
  require(impl.image[0] % 2 == 0 && impl.image[1] % 2 == 0,
          "lags are of an image of doubled extents, not " + impl.image.text());
  require(to.shape().rank() == 2 && to.shape()[0] >= impl.image[0] - 1 && to.shape()[1] >= impl.image[1] - 1,
          fmt::format("{} has no room for the lags of {}", to.shape().text(), impl.image.text()));
  const ScatterJob job{.coordinates = coordinates.data(),
                       .count = n,
                       .samples = nullptr,
                       .weights = weights.size() == 0 ? nullptr : weights.data(),
                       .channels = 1};
  ECHOTRAIN_DISPATCH(context, scatter(context, impl, job));
  ECHOTRAIN_DISPATCH(context, scattered_lags(context, impl, {1, to.shape()[0], to.shape()[1]}, to.data()));
}

}  // namespace echotrain::numerics
