#include "gadgets/numerics/inverse/nlinv/phased_frame.h"

#include <fmt/format.h>

#include <complex>
#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/inverse/nlinv/nlinv_ops.h"
#include "gadgets/numerics/mri/coils/coil.h"

namespace echotrain::numerics {
namespace {

Shape twice(const Shape& image) { return {2 * image[0], 2 * image[1]}; }

const Shape& plane(const Shape& image) {
  if (image.rank() != 2) throw std::invalid_argument("phased frame: images have two axes, not " + image.text());
  return image;
}

HostView<const cfloat> square(HostView<const cfloat> phases) {
  if (phases.shape().rank() != 2 || phases.shape()[0] != phases.shape()[1] || phases.shape()[0] < 1 ||
      phases.shape()[0] > Nlinv::kMostSlices)
    throw std::invalid_argument(fmt::format("phased frame: phases [number, slice] of 1 to {} slices, not {}",
                                            Nlinv::kMostSlices, phases.shape().text()));
  return phases;
}

/// The conjugate transpose of [n, n].
Array<cfloat> adjoint_of(Context& context, HostView<const cfloat> matrix) {
  const std::int64_t n = matrix.shape()[0];
  std::vector<cfloat> turned;
  for (std::int64_t column = 0; column < n; ++column)
    for (std::int64_t row = 0; row < n; ++row) turned.push_back(std::conj(matrix[row * n + column]));
  return context.upload<cfloat>({turned.data(), {n, n}});
}

}  // namespace

PhasedFrame::PhasedFrame(Context& context, HostView<const cfloat> phases, std::int64_t coils, const Shape& image,
                         double accuracy)
    : context_(context),
      coils_(coils),
      phases_(context.upload<cfloat>(square(phases))),
      conjugates_(adjoint_of(context, phases)),
      data_(context, plane(image), options_for_accuracy(accuracy, image, {context.backend()}), coils),
      lags_(context, twice(image), options_for_accuracy(accuracy, twice(image), {context.backend()}), 1),
      right_(context.zeros<cfloat>({phases.shape()[0], coils, image[0], image[1]})),
      seen_(context.zeros<cfloat>(right_.shape())),
      power_(context.zeros<double>({1})),
      number_(new_nlinv_number()) {
  for (std::int64_t n = 0; n < phases.shape()[0]; ++n) of_number_.emplace_back(context, image, coils);
}

void PhasedFrame::clear() {
  context_.clear<cfloat>(right_.view());
  context_.clear<double>(power_.view());
  for (FrameToeplitz& each : of_number_) context_.clear<cfloat>(each.lags());
}

void PhasedFrame::set(std::int64_t number, DeviceView<const double> coordinates, DeviceView<const cfloat> data,
                      DeviceView<const float> weights) {
  data_.adjoint(context_, coordinates, data, weights, right_.view().slice(number));
  lags_.lags(context_, coordinates, weights, of_number_.at(static_cast<std::size_t>(number)).lags());
  add_weighted_power(context_, data, weights, power_.view());
}

void PhasedFrame::apply(DeviceView<const cfloat> x, DeviceView<cfloat> y) {
  const Shape matrix{1, slices(), x.size() / slices()};
  // Context::copy() cannot be used: this is recorded.
  ECHOTRAIN_DISPATCH(context_, nlinv_combine(context_, x.size(), 1, x.data(), 0, x.data(), seen_.data()));
  apply_coil_matrix(context_, phases_.cview(), seen_.view().reshaped(matrix));
  for (std::int64_t n = 0; n < slices(); ++n)
    of_number_[static_cast<std::size_t>(n)].apply(context_, seen_.cview().slice(n), y.slice(n));
  apply_coil_matrix(context_, conjugates_.cview(), y.reshaped(matrix));
}

NlinvFrame PhasedFrame::finish(double weight) {
  // As in GriddedFrame, weights of a whole k-space, shared by the numbers, sum to pi / 4.
  const double scale = weight > 0 ? std::numbers::pi / 4 / weight : 1;
  for (FrameToeplitz& each : of_number_) {
    const auto lags = each.lags();
    // The factor is applied within the kernels, so that recorded work does not depend on it.
    ECHOTRAIN_DISPATCH(context_, nlinv_combine(context_, lags.size(), static_cast<float>(scale), lags.data(), 0,
                                               lags.data(), lags.data()));
    each.take(context_);
  }
  apply_coil_matrix(context_, conjugates_.cview(), right_.view().reshaped({1, slices(), right_.size() / slices()}));
  const Shape of_coils = of_number_.front().image();
  NlinvFrame frame;
  frame.matrix = [this, of_coils](DeviceView<const cfloat> x, DeviceView<cfloat> y) {
    const Shape all{slices(), coils_, of_coils[0], of_coils[1]};
    apply(x.reshaped(all), y.reshaped(all));
  };
  frame.data_scale = scale;
  frame.fixed = of_number_.front().can_be_recorded() ? number_ : 0;
  frame.right = slices() > 1 ? right_.cview() : right_.cview().slice(0);
  frame.power = power_.cview();
  return frame;
}

}  // namespace echotrain::numerics
