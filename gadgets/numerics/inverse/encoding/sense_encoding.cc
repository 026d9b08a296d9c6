#include "gadgets/numerics/inverse/encoding/sense_encoding.h"

#include <fmt/format.h>

#include <stdexcept>

#include "gadgets/numerics/inverse/operators/map_products.h"

namespace echotrain::numerics {
namespace {

Shape with_items(std::int64_t items, const Shape& image) {
  Shape shape{items};
  for (const auto e : image) shape.push_back(e);
  return shape;
}

std::int64_t items_of(const Shape& shape) { return shape.rank() == 0 ? 0 : shape[0]; }

void check(const SamplingOperator& sampling, const Shape& maps, const Shape& x) {
  const Shape& image = sampling.image();
  for (const Shape& shape : {maps, x})
    if (shape.rank() != image.rank() + 1 || !(shape == with_items(items_of(shape), image)))
      throw std::invalid_argument(
          fmt::format("sense encoding: expected [items, ...] of {}, got {}", image.text(), shape.text()));
}

/// The shape of the images of all coils and frames.
Shape of_coils(const SamplingOperator& sampling, const Shape& maps, const Shape& x, const Shape& d) {
  check(sampling, maps, x);
  const std::int64_t items = maps[0] * x[0];
  if (!(d == sampling.samples(items)))
    throw std::invalid_argument(
        fmt::format("sense encoding: expected samples {}, got {}", sampling.samples(items).text(), d.text()));
  return with_items(items, sampling.image());
}

}  // namespace

void sense_forward(Context& context, const SamplingOperator& sampling, DeviceView<const cfloat> maps,
                   DeviceView<const cfloat> x, DeviceView<cfloat> d) {
  Array<cfloat> images = context.allocate<cfloat>(of_coils(sampling, maps.shape(), x.shape(), d.shape()));
  spread_to_coils(context, maps, x, images.view());
  sampling.forward(context, images.cview(), d);
}

void sense_adjoint(Context& context, const SamplingOperator& sampling, DeviceView<const cfloat> maps,
                   DeviceView<const cfloat> d, DeviceView<cfloat> x) {
  Array<cfloat> images = context.allocate<cfloat>(of_coils(sampling, maps.shape(), x.shape(), d.shape()));
  sampling.adjoint(context, d, images.view());
  gather_from_coils(context, maps, images.cview(), x);
}

void sense_normal(Context& context, const SamplingOperator& sampling, DeviceView<const cfloat> maps,
                  DeviceView<const cfloat> x, DeviceView<cfloat> y) {
  check(sampling, maps.shape(), x.shape());
  if (!(y.shape() == x.shape()))
    throw std::invalid_argument(fmt::format("sense encoding: {} is not {}", y.shape().text(), x.shape().text()));
  const auto normal = sampling.normal();
  for (std::int64_t f = 0; f < x.shape()[0]; ++f) normal->apply_sense(context, maps, x.slice(f), y.slice(f));
}

}  // namespace echotrain::numerics
