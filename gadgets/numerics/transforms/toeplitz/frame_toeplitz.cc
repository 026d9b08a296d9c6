#include "gadgets/numerics/transforms/toeplitz/frame_toeplitz.h"

#include <fmt/format.h>

#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/transforms/toeplitz/toeplitz_ops.h"

namespace echotrain::numerics {
namespace {

void require_frame(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("toeplitz of a frame: " + problem);
}

}  // namespace

struct FrameToeplitz::Impl {
  ToeplitzOperator::Impl of;
  std::int64_t coils = 1;
  Array<cfloat> lags, work;
  Array<float> largest, partial;  // partial: the largest of each of its parts
  Array<std::int32_t> arrived;
};

FrameToeplitz::FrameToeplitz(Context& context, const Shape& image, std::int64_t coils)
    : impl_(std::make_unique<Impl>()) {
  constexpr std::int64_t kLongest = 4096;
  require_frame(image.rank() == 2 || image.rank() == 3, "an image has two or three axes, not " + image.text());
  require_frame(coils >= 1, fmt::format("no scan has {} coils", coils));
  for (const auto e : image) require_frame(e >= 1 && e <= kLongest, "no image can be " + image.text());
  ToeplitzOperator::Impl& of = impl_->of;
  of.image = image;
  of.backend = context.backend();
  of.dims = static_cast<int>(image.rank());
  of.n = last_axes(image, of.dims);
  of.padded = {1, 1, 1};
  for (int a = 3 - of.dims; a < 3; ++a) {
    of.padded[a] = ECHOTRAIN_DISPATCH(context, toeplitz_extent(of.n[a]));
    of.grid.push_back(of.padded[a]);
  }
  impl_->coils = coils;
  impl_->lags = context.zeros<cfloat>(of.grid);
  impl_->largest = context.zeros<float>({1});
  ECHOTRAIN_DISPATCH(context, toeplitz_plan(context, of));
  of.spectrum = context.zeros<float>({ECHOTRAIN_DISPATCH(context, toeplitz_spectrum_size(of))});
  impl_->work = context.allocate<cfloat>({ECHOTRAIN_DISPATCH(context, toeplitz_work_size(of, coils))});
  impl_->partial = context.zeros<float>({ECHOTRAIN_DISPATCH(context, toeplitz_parts(of))});
  impl_->arrived = context.zeros<std::int32_t>({1});
}
FrameToeplitz::~FrameToeplitz() = default;

const Shape& FrameToeplitz::image() const { return impl_->of.image; }
const Shape& FrameToeplitz::grid() const { return impl_->of.grid; }
DeviceView<cfloat> FrameToeplitz::lags() { return impl_->lags.view(); }
DeviceView<const float> FrameToeplitz::largest() const { return impl_->largest.cview(); }

void FrameToeplitz::take(Context& context) {
  Impl& impl = *impl_;
  require_frame(context.backend() == impl.of.backend, "it was made for another backend");
  fft(context, impl.lags.view(), impl.of.dims, Direction::forward);
  const float scale = 1 / static_cast<float>(impl.of.grid.size());
  const ToeplitzRefill refill{.transformed = impl.lags.data(),
                              .scale = scale,
                              .largest = impl.largest.data(),
                              .partial = impl.partial.data(),
                              .arrived = impl.arrived.data()};
  ECHOTRAIN_DISPATCH(context, toeplitz_refill(context, refill, impl.of));
}

void FrameToeplitz::apply_sense(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> x,
                                DeviceView<cfloat> y) const {
  const Impl& impl = *impl_;
  const Shape& image = impl.of.image;
  Shape coils{impl.coils};
  for (const auto e : image) coils.push_back(e);
  require_frame(context.backend() == impl.of.backend, "it was made for another backend");
  require_frame(maps.shape() == coils,
                fmt::format("expected coil maps of {}, got {}", coils.text(), maps.shape().text()));
  require_frame(x.shape() == image && y.shape() == image,
                fmt::format("expected images of {}, got {} and {}", image.text(), x.shape().text(), y.shape().text()));
  const ToeplitzJob job{.batch = impl.coils,
                        .x = x.data(),
                        .y = y.data(),
                        .maps = maps.data(),
                        .work = impl_->work.size() > 0 ? impl_->work.data() : nullptr};
  ECHOTRAIN_DISPATCH(context, toeplitz_apply(context, impl.of, job));
}

void FrameToeplitz::apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const {
  const Impl& impl = *impl_;
  Shape coils{impl.coils};
  for (const auto e : impl.of.image) coils.push_back(e);
  require_frame(context.backend() == impl.of.backend, "it was made for another backend");
  require_frame(x.shape() == coils && y.shape() == coils,
                fmt::format("expected images of {}, got {} and {}", coils.text(), x.shape().text(), y.shape().text()));
  const ToeplitzJob job{
      .batch = impl.coils, .x = x.data(), .y = y.data(), .work = impl_->work.size() > 0 ? impl_->work.data() : nullptr};
  ECHOTRAIN_DISPATCH(context, toeplitz_apply(context, impl.of, job));
}

bool FrameToeplitz::can_be_recorded() const { return static_cast<bool>(impl_->of.axes); }

}  // namespace echotrain::numerics
