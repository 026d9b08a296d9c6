// NUFFT samples as an operator, and arrays of coils on both kinds of samples.
#include "gadgets/numerics/inverse/encoding/sense_encoding.h"

#include "gadgets/numerics/inverse/encoding/masked_fourier.h"
#include "gadgets/numerics/inverse/encoding/nufft_sampling.h"
#include "tests/support/direct_sum.h"
#include "tests/support/solver_problem.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::make_sampling;
using testing::Random;
using testing::Sampling;
using testing::with_batch;

constexpr double kAccuracy = 1e-4;    // of the plans
constexpr double kOfAdjoints = 1e-6;  // rounding

cdouble dot(const std::vector<cfloat>& a, const std::vector<cfloat>& b) {
  return testing::vector(a).dot(testing::vector(b));
}

template <class B>
class SenseEncodingTest : public testing::OnBackend<B> {
 protected:
  std::shared_ptr<const SamplingOperator> nufft(const Sampling& s, const Shape& image) {
    Context& context = this->context();
    const auto dims = static_cast<std::int64_t>(image.rank()), n = static_cast<std::int64_t>(s.w.size());
    const auto plan = NufftPlan::make(context, {s.k.data(), {n, dims}}, image, options_for_accuracy(kAccuracy, image));
    return std::make_shared<NufftSampling>(plan, this->upload(s.w, {n}), testing::make_toeplitz(context, s, image));
  }
  std::shared_ptr<const SamplingOperator> grid(const Shape& image) {
    std::vector<float> mask;
    for (std::int64_t i = 0; i < image.size(); ++i) mask.push_back(i % 4 == 0 ? 0.0f : i % 4 == 1 ? 0.25f : 1.0f);
    return MaskedFourier::make(this->context(), {mask.data(), image}, image, image, image);
  }
  std::vector<cfloat> sense(void (*of)(Context&, const SamplingOperator&, DeviceView<const cfloat>,
                                       DeviceView<const cfloat>, DeviceView<cfloat>),
                            const SamplingOperator& op, const Array<cfloat>& maps, const std::vector<cfloat>& from,
                            const Shape& from_shape, const Shape& to_shape) {
    const auto there = this->upload(from, from_shape);
    auto to = this->context().template allocate<cfloat>(to_shape);
    of(this->context(), op, maps.cview(), there.cview(), to.view());
    return this->download(to);
  }
};
TYPED_TEST_SUITE(SenseEncodingTest, Backends, testing::BackendNames);

TYPED_TEST(SenseEncodingTest, NufftIsTheDirectSum) {
  for (const Shape& image : {Shape{18, 17}, Shape{7, 8, 9}}) {
    const Sampling s = make_sampling(image.rank(), 200, 1);
    const auto op = this->nufft(s, image);
    const Eigen::MatrixXcd f = testing::fourier_matrix(s.k, {}, image);
    const auto x = Random(2).normals(image.size()), d = Random(3).normals(200);
    Eigen::VectorXd w(200);
    for (std::int64_t i = 0; i < 200; ++i) w[i] = static_cast<double>(s.w[static_cast<std::size_t>(i)]);
    const auto x_there = this->upload(x, with_batch(1, image)), d_there = this->upload(d, op->samples(1));
    auto fx = this->context().template allocate<cfloat>(op->samples(1));
    auto fd = this->context().template allocate<cfloat>(x_there.shape());
    op->forward(this->context(), x_there.cview(), fx.view());
    op->adjoint(this->context(), d_there.cview(), fd.view());
    const auto samples = this->download(fx), images = this->download(fd);
    const Eigen::VectorXcd forward = f * testing::vector(x),
                           adjoint = f.adjoint() * (w.asDiagonal() * testing::vector(d));
    EXPECT_LT((testing::vector(samples) - forward).norm(), 2 * kAccuracy * forward.norm());
    EXPECT_LT((testing::vector(images) - adjoint).norm(), 2 * kAccuracy * adjoint.norm());
    const cdouble there = testing::vector(samples).dot(w.asDiagonal() * testing::vector(d)), here = dot(x, images);
    EXPECT_LE(std::abs(there - here), kOfAdjoints * forward.norm() * (w.asDiagonal() * testing::vector(d)).norm());
    auto y = this->context().template allocate<cfloat>(x_there.shape());
    op->normal()->apply(this->context(), x_there.cview(), y.view());
    const Eigen::VectorXcd both = f.adjoint() * (w.asDiagonal() * forward);
    EXPECT_LT((testing::vector(this->download(y)) - both).norm(), 1e-5 * both.norm());
  }
}

TYPED_TEST(SenseEncodingTest, IsTheOperatorOnEachCoil) {
  const Shape image{12, 13};
  const std::int64_t coils = 3, frames = 2, n = image.size();
  const auto maps = Random(4).normals(coils * n), x = Random(5).normals(frames * n);
  const auto maps_there = this->upload(maps, with_batch(coils, image));
  for (const auto& op : {this->nufft(make_sampling(2, 90, 6), image), this->grid(image)}) {
    const Shape samples = op->samples(coils * frames), images = with_batch(frames, image);
    const auto d = this->sense(sense_forward, *op, maps_there, x, images, samples);
    // The same, a coil and a frame at a time.
    const bool last = samples[0] != coils * frames;  // NUFFT: [sample, item]
    const auto count = static_cast<std::size_t>(samples.size() / (coils * frames));
    for (std::int64_t i = 0; i < coils * frames; ++i) {
      std::vector<cfloat> item;
      for (std::int64_t v = 0; v < n; ++v)
        item.push_back(maps[static_cast<std::size_t>(i % coils * n + v)] *
                       x[static_cast<std::size_t>(i / coils * n + v)]);
      const auto item_there = this->upload(item, with_batch(1, image));
      auto to = this->context().template allocate<cfloat>(op->samples(1));
      op->forward(this->context(), item_there.cview(), to.view());
      const auto alone = this->download(to);
      std::vector<cfloat> together;
      for (std::size_t k = 0; k < count; ++k)
        together.push_back(d[last ? k * static_cast<std::size_t>(coils * frames) + static_cast<std::size_t>(i)
                                  : static_cast<std::size_t>(i) * count + k]);
      EXPECT_LT(testing::relative_error(together, alone, count), 1e-6);
    }
    // <A x, W A x> = <x, A^H W A x>, and the normal operator is that.
    const auto back = this->sense(sense_adjoint, *op, maps_there, d, samples, images);
    const auto both = this->sense(sense_normal, *op, maps_there, x, images, images);
    const double tolerance = last ? 2 * kAccuracy : 1e-6;  // the Toeplitz operator has no error of gridding
    EXPECT_LT(testing::relative_error(back, both, back.size()), tolerance);
    EXPECT_LT(std::abs(dot(x, back).imag()), 1e-6 * std::abs(dot(x, back)));
  }
}

TYPED_TEST(SenseEncodingTest, RefusesWhatDoesNotFit) {
  Context& context = this->context();
  const Shape image{6, 5};
  const auto op = this->grid(image);
  auto maps = context.template zeros<cfloat>({2, 6, 5}), turned = context.template zeros<cfloat>({2, 5, 6}),
       x = context.template zeros<cfloat>({1, 6, 5}), d = context.template zeros<cfloat>({2, 6, 5});
  EXPECT_NO_THROW(sense_forward(context, *op, maps.cview(), x.cview(), d.view()));
  EXPECT_THROW(sense_forward(context, *op, turned.cview(), x.cview(), d.view()), std::invalid_argument);
  EXPECT_THROW(sense_forward(context, *op, maps.cview(), maps.cview(), d.view()), std::invalid_argument);
  EXPECT_THROW(sense_adjoint(context, *op, maps.cview(), x.cview(), x.view()), std::invalid_argument);
  EXPECT_THROW(sense_normal(context, *op, maps.cview(), x.cview(), d.view()), std::invalid_argument);
  const Sampling s = make_sampling(2, 20, 1);
  const auto only_adjoint = NufftPlan::make(context, {s.k.data(), {20, 2}}, image, {.use = NufftUse::adjoint});
  const auto whole = NufftPlan::make(context, {s.k.data(), {20, 2}}, image);
  const auto toeplitz = testing::make_toeplitz(context, s, image), other = testing::make_toeplitz(context, s, {5, 6});
  EXPECT_NO_THROW(NufftSampling(whole, {}, toeplitz));
  EXPECT_THROW(NufftSampling(only_adjoint, {}, toeplitz), std::invalid_argument);
  EXPECT_THROW(NufftSampling(whole, {}, other), std::invalid_argument);
  EXPECT_THROW(NufftSampling(whole, context.template zeros<float>({19}), toeplitz), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
