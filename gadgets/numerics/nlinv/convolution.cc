#include "gadgets/numerics/nlinv/convolution.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/fft/fft.h"
#include "gadgets/numerics/fft/fft_ops.h"
#include "gadgets/numerics/nlinv/nlinv_ops.h"
#include "gadgets/numerics/toeplitz/toeplitz_ops.h"

namespace echotrain::numerics {
namespace {

void fits(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("convolution: " + problem);
}

}  // namespace

struct FrameConvolution::Impl {
  Context& context;
  ToeplitzOperator::Impl toeplitz;
  Array<cfloat> lags;
};

FrameConvolution::FrameConvolution(Context& context, const Shape& image) {
  fits(image.rank() == 2 && image[0] >= 1 && image[1] >= 1, "images have two axes, not " + image.text());
  impl_ = std::make_unique<Impl>(Impl{.context = context, .toeplitz = {}, .lags = {}});
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
  t.smallest = t.largest = t.diagonal = 0;  // of no frame yet
  impl_->lags = context.allocate<cfloat>(t.grid);
}
FrameConvolution::~FrameConvolution() = default;

void FrameConvolution::set(DeviceView<const cfloat> q) {
  Context& context = impl_->context;
  ToeplitzOperator::Impl& t = impl_->toeplitz;
  fits(q.shape() == Shape({2 * t.image[0], 2 * t.image[1]}),
       fmt::format("{} is not twice {}", q.shape().text(), t.image.text()));
  // Centred lags to the corners. Lag -n has no partner +n, but no two voxels are that far apart.
  const Centred c = centred({1, q.shape()[0], q.shape()[1]}, t.padded);
  ECHOTRAIN_DISPATCH(context, place(context, q.data(), impl_->lags.data(), 1, c));
  fft(context, impl_->lags.view(), 2, Direction::forward);
  Array<float> natural = context.allocate<float>(t.grid);
  const auto points = static_cast<float>(t.grid.size());
  ECHOTRAIN_DISPATCH(context, nlinv_real(context, impl_->lags.data(), natural.size(), 1 / points, natural.data()));
  ECHOTRAIN_DISPATCH(context, toeplitz_prepare(context, std::move(natural), t));
}

void FrameConvolution::apply(DeviceView<const cfloat> x, DeviceView<cfloat> y) const {
  const ToeplitzOperator::Impl& t = impl_->toeplitz;
  fits(static_cast<bool>(t.spectrum), "no frame was set");
  fits(x.shape().rank() == 3 && x.shape() == Shape({x.shape()[0], t.image[0], t.image[1]}) && y.shape() == x.shape(),
       fmt::format("expected images [batch, y, x] of {}, got {} and {}", t.image.text(), x.shape().text(),
                   y.shape().text()));
  if (x.size() == 0) return;
  const ToeplitzJob job{.batch = x.shape()[0], .x = x.data(), .y = y.data()};
  ECHOTRAIN_DISPATCH(impl_->context, toeplitz_apply(impl_->context, t, job));
}

}  // namespace echotrain::numerics
