#include "gadgets/numerics/inverse/nlinv/gridded_frame.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "gadgets/numerics/core/reduce/reductions.h"

namespace echotrain::numerics {
namespace {

Shape with_batch(std::int64_t batch, const Shape& item) {
  Shape shape{batch};
  for (const auto e : item) shape.push_back(e);
  return shape;
}

std::shared_ptr<const NufftPlan> model(Context& context, const Shape& image, double accuracy) {
  NufftOptions options = options_for_accuracy(accuracy, image, {context.backend()});
  options.use = NufftUse::accumulate;
  const double centre[2] = {0, 0};
  return NufftPlan::make(context, {centre, {1, 2}}, image, options);
}

}  // namespace

GriddedFrame::GriddedFrame(Context& context, std::int64_t coils, const Shape& image, double accuracy)
    : context_(context),
      image_(image),
      plan_(model(context, image, accuracy)),
      spread_plan_(model(context, {2 * image[0], 2 * image[1]}, accuracy)),
      grid_(context.zeros<cfloat>(with_batch(coils, plan_->grid_shape()))),
      spread_grid_(context.zeros<cfloat>(with_batch(1, spread_plan_->grid_shape()))),
      right_(context.zeros<cfloat>(with_batch(coils, image))),
      spread_(context.zeros<cfloat>({1, 2 * image[0], 2 * image[1]})),
      power_(context.zeros<double>({1})),
      convolution_(context, image, coils),
      number_(new_nlinv_number()) {}

void GriddedFrame::clear() {
  context_.clear<cfloat>(grid_.view());
  context_.clear<cfloat>(spread_grid_.view());
  context_.clear<double>(power_.view());
  weight_ = 0;
}

void GriddedFrame::add(HostView<const double> coordinates, DeviceView<const cfloat> data,
                       DeviceView<const float> weights, HostView<const float> host_weights) {
  const std::int64_t n = data.shape()[0];
  if (n == 0) return;
  std::vector<cfloat> alone(static_cast<std::size_t>(n));
  for (std::int64_t s = 0; s < n; ++s) {
    if (!std::isfinite(coordinates[2 * s]) || !std::isfinite(coordinates[2 * s + 1])) continue;
    alone[static_cast<std::size_t>(s)] = host_weights[s];
    weight_ += static_cast<double>(host_weights[s]);
  }
  add_weighted_power(context_, data, weights, power_.view());
  plan_->with_samples(context_, coordinates)->accumulate(context_, 0, data, weights, 1, grid_.view());
  const Array<cfloat> of_weights = context_.upload<cfloat>({alone.data(), {n, 1}});
  spread_plan_->with_samples(context_, coordinates)
      ->accumulate(context_, 0, of_weights.cview(), {}, 1, spread_grid_.view());
}

NlinvFrame GriddedFrame::finish() {
  plan_->to_images(context_, grid_.view(), right_.view());
  spread_plan_->to_images(context_, spread_grid_.view(), spread_.view());
  // The weights of a whole k-space sum to the area of its disc, pi / 4, and then F^H W F is about 1.
  const double scale = weight_ > 0 ? std::numbers::pi / 4 / weight_ : 1;
  convolution_.set(spread_.cview().slice(0), scale);
  NlinvFrame frame;
  frame.matrix = [this](DeviceView<const cfloat> x, DeviceView<cfloat> y) { convolution_.apply(x, y); };
  frame.data_scale = scale;
  frame.fixed = convolution_.can_be_recorded() ? number_ : 0;
  frame.right = right_.cview();
  frame.power = power_.cview();
  return frame;
}

}  // namespace echotrain::numerics
