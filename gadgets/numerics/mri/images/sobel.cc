#include "gadgets/numerics/mri/images/sobel.h"

#include <fmt/format.h>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/mri/images/sobel_ops.h"

namespace echotrain::numerics {
namespace {

bool per_axis(const Shape& shape, const Shape& image) {
  return shape.rank() == 4 && shape[0] == image_axes(image) && shape[1] == image[0] && shape[2] == image[1] &&
         shape[3] == image[2];
}

}  // namespace

void sobel(Context& context, DeviceView<const float> image, DeviceView<float> magnitude, DeviceView<float> components) {
  const Shape& shape = image.shape();
  const bool wants_components = components.data() != nullptr;
  if (shape.rank() != 3 || !(magnitude.shape() == shape) || (wants_components && !per_axis(components.shape(), shape)))
    throw std::invalid_argument(
        fmt::format("sobel: expected an image and its magnitude [z, y, x] and components [axis, z, y, x], "
                    "got {}, {} and {}",
                    shape.text(), magnitude.shape().text(), components.shape().text()));
  if (image.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, sobel(context, image.data(), last_axes(shape, 3), static_cast<int>(image_axes(shape)),
                                    magnitude.data(), components.data()));
}

void sobel(Context& context, DeviceView<const cfloat> image, DeviceView<float> magnitude,
           DeviceView<float> components) {
  Array<float> real = context.allocate<float>(image.shape());
  component(context, image, Component::magnitude, 1, real.view());
  sobel(context, real.cview(), magnitude, components);
}

void gradient_image(Context& context, DeviceView<const float> components, const std::array<float, 3>& factors,
                    GradientPart part, DeviceView<cfloat> to) {
  const Shape &from = components.shape(), &shape = to.shape();
  const bool fits = from.rank() == 4 && (from[0] == 2 || from[0] == 3) && shape.rank() == 4 &&
                    shape[0] == gradient_channels(from[0], part) && shape[1] == from[1] && shape[2] == from[2] &&
                    shape[3] == from[3];
  if (!fits)
    throw std::invalid_argument(
        fmt::format("gradient_image: expected components [axis, z, y, x] and an image [channel, z, y, x] of its "
                    "channels, got {} and {}",
                    from.text(), shape.text()));
  if (to.size() == 0) return;
  const GradientImage how{
      static_cast<int>(from[0]), {factors[0], factors[1], factors[2]}, part, to.slice(0).shape().size()};
  ECHOTRAIN_DISPATCH(context, gradient_image(context, components.data(), how, to.data()));
}

void edge_weights(Context& context, DeviceView<const float> reference, const EdgeOptions& options,
                  DeviceView<float> weights) {
  const Shape& shape = reference.shape();
  if (shape.rank() != 3 || !per_axis(weights.shape(), shape))
    throw std::invalid_argument(
        fmt::format("edge_weights: expected a reference [z, y, x] and weights [axis, z, y, x], got {} and {}",
                    shape.text(), weights.shape().text()));
  if (!(options.strength > 0 && options.strength <= 1e6))
    throw std::invalid_argument(fmt::format("edge_weights: expected a strength of 0..1e6, got {}", options.strength));
  if (!(options.quantile >= 0 && options.quantile <= 1))
    throw std::invalid_argument(fmt::format("edge_weights: expected a quantile of 0..1, got {}", options.quantile));
  if (reference.size() == 0) return;
  const Extents n = last_axes(shape, 3);
  const int axes = static_cast<int>(image_axes(shape));
  ECHOTRAIN_DISPATCH(context, edge_weights(context, reference.data(), n, axes, static_cast<float>(options.strength),
                                           options.quantile, weights.data()));
}

}  // namespace echotrain::numerics
