#include "gadgets/numerics/transforms/toeplitz/toeplitz.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/transforms/exact/direct_transform_ops.h"
#include "gadgets/numerics/transforms/toeplitz/toeplitz_ops.h"

namespace echotrain::numerics {
namespace {

constexpr std::int64_t kLongest = 4096;  // voxels along an axis

void require(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("toeplitz: " + problem);
}

Shape halved(const Shape& doubled) {
  require(doubled.rank() == 2 || doubled.rank() == 3, "q has two or three axes, not " + doubled.text());
  Shape image;
  for (const auto e : doubled) {
    require(e >= 2 && e % 2 == 0 && e <= 2 * kLongest, "q is for lags -n .. n - 1 of each axis, not " + doubled.text());
    image.push_back(e / 2);
  }
  return image;
}

/// Takes the real part of a spectrum. Returns its range.
SpectrumRange take_real(Context& context, const Array<cfloat>& spectrum, float scale, float* to) {
  return ECHOTRAIN_DISPATCH(context, real_part(context, spectrum.data(), spectrum.size(), scale, to));
}

/// to[i] = factors[i] exp(2 pi i k[i] steps), complex, to 1e-10 before it is rounded. k: one in `stride`. Half the
/// angle is within pi / 2, where few terms of the series of sine and cosine suffice.
ECHOTRAIN_CLONES void turned(const double* k, std::int64_t stride, double steps, const double* factors, std::int64_t n,
                             float* to) {
  constexpr double kWholeParts = 0x1.8p52;  // adding this rounds the fraction away
  // A fractional part is within 0.5 up to rounding. It is more where numbers are too large to have one, or not finite.
  for (std::int64_t i = 0; i < n; ++i) {
    const double turns = k[i * stride] * steps, part = turns - ((turns + kWholeParts) - kWholeParts),
                 half = std::abs(part) < 0.6 ? std::numbers::pi * part : 0.0, square = half * half;
    double sine = 1, cosine = 1;
#pragma GCC unroll 8
    for (int m = 16; m > 0; m -= 2) {
      sine = 1 - square * (1.0 / (m * (m + 1))) * sine;
      cosine = 1 - square * (1.0 / (m * (m - 1))) * cosine;
    }
    sine *= half;
    to[2 * i] = static_cast<float>(factors[i] * (1 - 2 * sine * sine));
    to[2 * i + 1] = static_cast<float>(factors[i] * (2 * sine * cosine));
  }
}

}  // namespace

ToeplitzOperator::ToeplitzOperator(Context& context, DeviceView<const cfloat> q) : impl_(std::make_unique<Impl>()) {
  Impl& impl = *impl_;
  impl.image = halved(q.shape());
  impl.backend = context.backend();
  impl.dims = static_cast<int>(impl.image.rank());
  impl.n = last_axes(impl.image, impl.dims);
  impl.padded = {1, 1, 1};
  for (int a = 3 - impl.dims; a < 3; ++a) {
    impl.padded[a] = ECHOTRAIN_DISPATCH(context, toeplitz_extent(impl.n[a]));
    impl.grid.push_back(impl.padded[a]);
  }
  cfloat centre;
  context.copy<cfloat>(q.part(0, {1}), HostView<cfloat>(&centre, {1}));
  context.synchronize();
  impl.diagonal = static_cast<double>(centre.real());

  impl.circulant = context.allocate<float>(impl.image);
  {
    Array<cfloat> column = context.allocate<cfloat>(impl.image);
    ECHOTRAIN_DISPATCH(context, circulant_place(context, q.data(), impl.n, impl.dims, column.data()));
    fft(context, column.view(), impl.dims, Direction::forward);
    take_real(context, column, 1.0f, impl.circulant.data());
  }
  Array<float> natural = context.allocate<float>(impl.grid);
  {
    Array<cfloat> lags = context.allocate<cfloat>(impl.grid);
    ECHOTRAIN_DISPATCH(context, toeplitz_place(context, q.data(), impl.n, impl.padded, impl.dims, lags.data()));
    fft(context, lags.view(), impl.dims, Direction::forward);
    const auto voxels = static_cast<float>(impl.grid.size());
    const SpectrumRange range = take_real(context, lags, 1 / voxels, natural.data());
    require(std::isfinite(range.imaginary), "q is not finite");
    impl.smallest = static_cast<double>(range.smallest);
    impl.largest = static_cast<double>(range.largest);
    // A transform of n points in single precision errs by about 6e-8 log2(n) |q|, and the largest value is |q| or more:
    // 2e-6 for 512^3. The maker of q writes one half of it as the other's mirror image.
    constexpr double kRounding = 1e-5;
    const double imaginary = static_cast<double>(range.imaginary),
                 size = std::max(std::abs(impl.smallest), std::abs(impl.largest));
    require(imaginary <= kRounding * size,
            fmt::format("q is not Hermitian: its spectrum is real to {:.1e} only", size > 0 ? imaginary / size : 1.0));
  }
  ECHOTRAIN_DISPATCH(context, toeplitz_prepare(context, std::move(natural), impl));
  context.synchronize();
}
ToeplitzOperator::ToeplitzOperator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ToeplitzOperator::~ToeplitzOperator() = default;

std::shared_ptr<const NormalOperator> ToeplitzOperator::copy(Context& context) const {
  require(context.backend() == impl_->backend, "the operator was made for another backend");
  auto other = std::make_unique<Impl>(*impl_);
  other->spectrum = context.allocate<float>(impl_->spectrum.shape());
  other->circulant = context.allocate<float>(impl_->circulant.shape());
  context.copy<float>(impl_->spectrum.cview(), other->spectrum.view());
  context.copy<float>(impl_->circulant.cview(), other->circulant.view());
  ECHOTRAIN_DISPATCH(context, toeplitz_plan(context, *other));
  context.synchronize();
  return std::shared_ptr<const ToeplitzOperator>(new ToeplitzOperator(std::move(other)));
}

const Shape& ToeplitzOperator::image() const { return impl_->image; }
const Shape& ToeplitzOperator::grid() const { return impl_->grid; }
Backend ToeplitzOperator::backend() const { return impl_->backend; }
double ToeplitzOperator::smallest() const { return impl_->smallest; }
double ToeplitzOperator::largest() const { return impl_->largest; }
double ToeplitzOperator::diagonal() const { return impl_->diagonal; }
DeviceView<const float> ToeplitzOperator::circulant() const { return impl_->circulant.cview(); }
std::uint64_t ToeplitzOperator::bytes() const {
  return static_cast<std::uint64_t>(impl_->spectrum.size() + impl_->circulant.size()) * sizeof(float);
}

void ToeplitzOperator::apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const {
  const Impl& impl = *impl_;
  const Shape& image = impl.image;
  Shape batched{x.shape().rank() > 0 ? x.shape()[0] : 0};
  for (const auto e : image) batched.push_back(e);
  require(context.backend() == impl.backend, "the operator was made for another backend");
  require(x.shape() == image || x.shape() == batched,
          fmt::format("expected images of {}, got {}", image.text(), x.shape().text()));
  require(y.shape() == x.shape(), fmt::format("{} is not {}", y.shape().text(), x.shape().text()));
  if (x.size() == 0) return;
  const ToeplitzJob job{.batch = x.size() / image.size(), .x = x.data(), .y = y.data()};
  ECHOTRAIN_DISPATCH(context, toeplitz_apply(context, impl, job));
}

void ToeplitzOperator::apply_sense(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> x,
                                   DeviceView<cfloat> y) const {
  const Impl& impl = *impl_;
  const Shape& image = impl.image;
  Shape coils{maps.shape().rank() > 0 ? maps.shape()[0] : 0};
  for (const auto e : image) coils.push_back(e);
  require(context.backend() == impl.backend, "the operator was made for another backend");
  require(maps.shape() == coils && coils[0] >= 1,
          fmt::format("expected coil maps of [coil, ...] of {}, got {}", image.text(), maps.shape().text()));
  require(x.shape() == image && y.shape() == image,
          fmt::format("expected images of {}, got {} and {}", image.text(), x.shape().text(), y.shape().text()));
  const ToeplitzJob job{.batch = coils[0], .x = x.data(), .y = y.data(), .maps = maps.data()};
  ECHOTRAIN_DISPATCH(context, toeplitz_apply(context, impl, job));
}

Shape lag_image(const Shape& image) {
  Shape half;
  for (const auto e : image) half.push_back(half.rank() == 0 ? e : 2 * e);
  return half;
}

std::int64_t ToeplitzOperator::around_parts() const { return impl_->around_parts; }

void ToeplitzOperator::apply_around(Context& context, DeviceView<const cfloat> maps, DeviceView<cfloat> x,
                                    DeviceView<cfloat> y, const AroundApply& around) const {
  const Impl& impl = *impl_;
  const bool sense = maps.size() > 0;
  const std::int64_t n = impl.image.size();
  require(context.backend() == impl.backend, "the operator was made for another backend");
  require(x.size() == y.size() && x.size() % n == 0 && maps.size() % n == 0 &&
              (!sense || (x.size() == n && around.r == nullptr)),
          fmt::format("expected images of {}, got {} and {}", impl.image.text(), x.shape().text(), y.shape().text()));
  const ToeplitzJob job{.batch = (sense ? maps.size() : x.size()) / n,
                        .x = x.data(),
                        .y = y.data(),
                        .maps = sense ? maps.data() : nullptr,
                        .around = &around};
  ECHOTRAIN_DISPATCH(context, toeplitz_apply(context, impl, job));
}

void point_spread_nufft(Context& context, HostView<const double> coordinates, HostView<const float> weights,
                        const Shape& image, VoxelBasis basis, const NufftOptions& options, DeviceView<cfloat> q) {
  Shape doubled;
  for (const auto e : image) {
    require(e >= 1 && e <= kLongest, "no image can be " + image.text());
    doubled.push_back(2 * e);
  }
  require(image.rank() == 2 || image.rank() == 3, "an image has two or three axes, not " + image.text());
  require(q.shape() == doubled, q.shape().text() + " is not " + doubled.text());
  const auto dims = static_cast<int>(image.rank());
  require(coordinates.shape().rank() == 2 && coordinates.shape()[1] == dims,
          fmt::format("expected coordinates of shape [sample, {}], got {}", dims, coordinates.shape().text()));
  const std::int64_t n = coordinates.shape()[0];
  require(weights.size() == 0 || weights.size() == n, fmt::format("{} weights for {} samples", weights.size(), n));
  const Shape half = lag_image(image);
  Shape one{1};
  for (const auto e : half) one.push_back(e);
  // The lags of the slowest axis, 0 .. n - 1, become positions about the middle of n by a phase.
  const auto middle = static_cast<double>(half[0] / 2);
  HostArray<cfloat> values = context.allocate_host<cfloat>({n, 1});
  context.threads().parallel_for(n, 4096, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kAtOnce = 512;
    double factors[kAtOnce];
    for (std::int64_t first = begin; first < end; first += kAtOnce) {
      const std::int64_t count = std::min(kAtOnce, end - first);
      for (std::int64_t s = 0; s < count; ++s) {
        const double* k = coordinates.data() + (first + s) * dims;
        const bool finite = std::all_of(k, k + dims, [](double v) { return std::isfinite(v); });
        const double b = finite ? basis_transform(basis, k, dims) : 0.0,
                     w = weights.size() == 0 ? 1.0 : static_cast<double>(weights[first + s]);
        factors[s] = w * b * b;
      }
      turned(coordinates.data() + first * dims + dims - 1, dims, middle, factors, count,
             reinterpret_cast<float*>(values.data() + first));
    }
  });
  NufftOptions adjoint = options;
  adjoint.use = NufftUse::adjoint;
  const auto plan = NufftPlan::make(context, coordinates, half, adjoint);
  const Array<cfloat> samples = context.place(values);
  Array<cfloat> lags = context.allocate<cfloat>(one);
  plan->adjoint(context, samples.cview(), {}, lags.view());
  DirectGrid grid;
  grid.dims = dims;
  grid.nx = doubled[doubled.rank() - 1];
  grid.ny = doubled[doubled.rank() - 2];
  grid.nz = dims == 3 ? doubled[0] : 1;
  grid.first_column = dims == 3 ? grid.nz / 2 * grid.ny : grid.ny / 2;
  ECHOTRAIN_DISPATCH(context, fill_hermitian(context, grid, lags.data(), q.data()));
}

}  // namespace echotrain::numerics
