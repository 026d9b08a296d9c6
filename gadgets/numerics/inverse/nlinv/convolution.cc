#include "gadgets/numerics/inverse/nlinv/convolution.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/numerics/transforms/fft/fft_ops.h"
#include "gadgets/numerics/transforms/toeplitz/toeplitz_ops.h"

namespace echotrain::numerics {
namespace {

void fits(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("convolution: " + problem);
}

}  // namespace

struct FrameConvolution::Impl {
  Context& context;
  std::int64_t batch;
  bool known = false;  ///< a frame was set
  ToeplitzOperator::Impl toeplitz = {};
  Array<cfloat> lags = {}, work = {};
  Array<float> largest = {}, partial = {};  ///< maxima of the spectrum, for ToeplitzRefill
  Array<std::int32_t> arrived = {};
};

FrameConvolution::FrameConvolution(Context& context, const Shape& image, std::int64_t batch) {
  fits(image.rank() == 2 && image[0] >= 1 && image[1] >= 1 && batch >= 1,
       fmt::format("images have two axes, not {} of {}", batch, image.text()));
  impl_ = std::make_unique<Impl>(Impl{.context = context, .batch = batch});
  ToeplitzOperator::Impl& t = impl_->toeplitz;
  t.image = image;
  t.backend = context.backend();
  t.dims = 2;
  t.n = last_axes(image, 2);
  t.padded = {1, 1, 1};
  for (int a = 1; a < 3; ++a) {
    t.padded[a] = ECHOTRAIN_DISPATCH(context, toeplitz_extent(t.n[a]));
    t.grid.push_back(t.padded[a]);
  }
  t.smallest = t.largest = t.diagonal = 0;  // invalid until a frame is set
  impl_->lags = context.allocate<cfloat>(t.grid);
  ECHOTRAIN_DISPATCH(context, toeplitz_plan(context, t));
  t.spectrum = context.zeros<float>({ECHOTRAIN_DISPATCH(context, toeplitz_spectrum_size(t))});
  impl_->work = context.allocate<cfloat>({ECHOTRAIN_DISPATCH(context, toeplitz_work_size(t, batch))});
  impl_->largest = context.zeros<float>({1});
  impl_->partial = context.zeros<float>({ECHOTRAIN_DISPATCH(context, toeplitz_parts(t))});
  impl_->arrived = context.zeros<std::int32_t>({1});
}
FrameConvolution::~FrameConvolution() = default;

void FrameConvolution::set(DeviceView<const cfloat> q, double scale) {
  Context& context = impl_->context;
  ToeplitzOperator::Impl& t = impl_->toeplitz;
  fits(q.shape() == Shape({2 * t.image[0], 2 * t.image[1]}),
       fmt::format("{} is not twice {}", q.shape().text(), t.image.text()));
  // Centred lags to the corners. Lag -n has no partner +n, but no two voxels are that far apart.
  const Centred c = centred({1, q.shape()[0], q.shape()[1]}, t.padded);
  ECHOTRAIN_DISPATCH(context, place(context, q.data(), impl_->lags.data(), 1, c));
  fft(context, impl_->lags.view(), 2, Direction::forward);
  const ToeplitzRefill refill{.transformed = impl_->lags.data(),
                              .scale = static_cast<float>(scale / static_cast<double>(t.grid.size())),
                              .largest = impl_->largest.data(),
                              .partial = impl_->partial.data(),
                              .arrived = impl_->arrived.data()};
  ECHOTRAIN_DISPATCH(context, toeplitz_refill(context, refill, t));
  impl_->known = true;
}

void FrameConvolution::apply(DeviceView<const cfloat> x, DeviceView<cfloat> y) const {
  const ToeplitzOperator::Impl& t = impl_->toeplitz;
  fits(impl_->known, "no frame was set");
  fits(x.shape().rank() == 3 && x.shape() == Shape({x.shape()[0], t.image[0], t.image[1]}) && y.shape() == x.shape(),
       fmt::format("expected images [batch, y, x] of {}, got {} and {}", t.image.text(), x.shape().text(),
                   y.shape().text()));
  if (x.size() == 0) return;
  const std::int64_t batch = x.shape()[0];
  fits(batch <= impl_->batch, fmt::format("it was made for {} images at once, not {}", impl_->batch, batch));
  const ToeplitzJob job{
      .batch = batch, .x = x.data(), .y = y.data(), .work = impl_->work.size() > 0 ? impl_->work.data() : nullptr};
  ECHOTRAIN_DISPATCH(impl_->context, toeplitz_apply(impl_->context, t, job));
}

bool FrameConvolution::can_be_recorded() const { return static_cast<bool>(impl_->toeplitz.axes); }

}  // namespace echotrain::numerics
