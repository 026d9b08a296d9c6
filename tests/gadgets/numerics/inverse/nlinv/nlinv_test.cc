// NLINV against its definition in float64, on both backends.
#include "gadgets/numerics/inverse/nlinv/nlinv.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "gadgets/numerics/inverse/nlinv/gridded_frame.h"
#include "gadgets/numerics/inverse/nlinv/nlinv_ops.h"
#include "tests/gadgets/numerics/inverse/nlinv/nlinv_reference.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::NlinvReference;
using testing::Random;
using testing::Vector64;

Vector64 to64(const std::vector<cfloat>& values) { return Vector64(values.begin(), values.end()); }

/// One slice.
struct Tiny : testing::TinyScan {
  explicit Tiny(unsigned seed = 1, std::size_t samples = 60) : TinyScan(1, seed, samples) {}
};

/// The same as GriddedFrame, to rounding of its accuracy.
class TinyFrame {
 public:
  TinyFrame(Context& context, const Tiny& tiny)
      : context_(context), gridded_(context, tiny.coils(), tiny.image(), 2e-6) {
    fill(tiny);
  }
  /// The next frame in the same memory.
  void fill(const Tiny& tiny) {
    gridded_.clear();
    const auto samples = static_cast<std::int64_t>(tiny.reference.weights.size());
    const HostView<const float> weights(tiny.reference.weights.data(), {samples});
    const std::vector<cfloat> data(tiny.data.begin(), tiny.data.end());
    data_ = context_.upload<cfloat>({data.data(), {samples, tiny.coils()}});
    weights_ = context_.upload<float>(weights);
    // In two parts, as they come.
    const std::int64_t first = samples / 3;
    add(tiny, 0, first);
    add(tiny, first, samples - first);
    frame_ = gridded_.finish();
  }
  const NlinvFrame& get() const { return frame_; }

 private:
  void add(const Tiny& tiny, std::int64_t first, std::int64_t n) {
    gridded_.add({tiny.reference.coordinates.data() + 2 * first, {n, 2}},
                 data_.cview().part(first * tiny.coils(), {n, tiny.coils()}), weights_.cview().part(first, {n}),
                 {tiny.reference.weights.data() + first, {n}});
  }
  Context& context_;
  GriddedFrame gridded_;
  NlinvFrame frame_;
  Array<cfloat> data_;
  Array<float> weights_;
};

template <class B>
class NlinvTest : public testing::OnNlinv<B> {
 protected:
  NlinvProblem problem(const Tiny& tiny) {
    return make_nlinv_problem(this->context(), tiny.coils(), tiny.image(), tiny.field(), tiny.reference.options);
  }
};
TYPED_TEST_SUITE(NlinvTest, Backends, testing::BackendNames);

TEST(NlinvInnerTest, StepsRiseWithTheNewtonStep) {
  EXPECT_EQ(nlinv_inner_steps({}), (std::vector<int>{2, 4, 6, 8, 10, 12}));
  NlinvOptions options;
  options.inner = 1;
  options.newton_steps = 3;
  EXPECT_EQ(nlinv_inner_steps(options), (std::vector<int>{1, 1, 1}));
}

// What kLeastWeight keeps of a field of 256: (1 + 220 k^2)^-16 >= 1e-5 up to k = 17.7 / 256.
TYPED_TEST(NlinvTest, KeepsTheCoefficientsThatCount) {
  const Nlinv nlinv(this->context(), 2, {128, 96}, {256, 192}, {});
  EXPECT_EQ(nlinv.coefficients(), Shape({2 * 13 + 1, 2 * 17 + 1}));
  EXPECT_EQ(nlinv.unknowns().size(), 128 * 96 + 2 * 27 * 35);
}

// Sums of some hundred terms in fp32: 1e-6 is three times what they are off by.
TYPED_TEST(NlinvTest, DerivativeAndAdjointAreTheirSums) {
  Context& context = this->context();
  const Tiny tiny;
  const NlinvReference& r = tiny.reference;
  const NlinvProblem problem = this->problem(tiny);
  const auto n = problem.unknowns();
  ASSERT_EQ(n, static_cast<std::int64_t>(r.unknowns()));
  const auto x = Random(2).normals(n), p = Random(3).normals(n), y = Random(4).normals(tiny.coils() * problem.voxels());
  const auto x_there = this->upload(x, {n}), p_there = this->upload(p, {n});
  const Shape images{tiny.coils(), tiny.image()[0], tiny.image()[1]};
  const auto y_there = this->upload(y, images);
  auto c = context.template allocate<cfloat>(images), z = context.template allocate<cfloat>(images);
  auto h = context.template allocate<cfloat>({n});
  auto sums = context.template allocate<double>({on_backend::nlinv_back_sums(context, problem)});
  on_backend::nlinv_product(context, problem, nullptr, nullptr, x_there.data(), c.data());
  EXPECT_LT(testing::relative_error(this->download(c), r.coil_images(to64(x)), y.size()), 1e-6);
  on_backend::nlinv_product(context, problem, x_there.data(), c.data(), p_there.data(), z.data());
  const Vector64 change = to64(this->download(z));
  EXPECT_LT(testing::relative_error(change, r.derivative(to64(x), to64(p)), y.size()), 1e-6);

  // The model is bilinear, so that half a central difference of any width is the derivative.
  Vector64 above = to64(x), below = to64(x);
  for (std::size_t i = 0; i < above.size(); ++i) {
    above[i] += cdouble(p[i]);
    below[i] -= cdouble(p[i]);
  }
  const Vector64 up = r.image_of(above), down = r.image_of(below);
  Vector64 half(up.size());
  for (std::size_t i = 0; i < half.size(); ++i) half[i] = (up[i] - down[i]) / 2.0;
  EXPECT_LT(testing::relative_error(change, half, half.size()), 1e-6);

  on_backend::nlinv_back(context, problem, 1.0f, 0.0f, x_there.data(), c.data(), y_there.data(), p_there.data(),
                         h.data(), sums.data());
  const Vector64 back = to64(this->download(h));
  EXPECT_LT(testing::relative_error(back, r.adjoint(to64(x), to64(y)), back.size()), 1e-6);
  const cdouble one = testing::inner(to64(y), change), other = testing::inner(back, to64(p));
  EXPECT_LT(std::abs(one - other), 1e-5 * std::abs(one));

  constexpr float kScale = 0.5f, kAlpha = 0.25f;
  on_backend::nlinv_back(context, problem, kScale, kAlpha, x_there.data(), c.data(), y_there.data(), p_there.data(),
                         h.data(), sums.data());
  Vector64 with_prior = back;
  for (std::size_t i = 0; i < with_prior.size(); ++i)
    with_prior[i] = static_cast<double>(kScale) * back[i] + static_cast<double>(kAlpha) * cdouble(p[i]);
  const std::vector<cfloat> given = this->download(h);
  EXPECT_LT(testing::relative_error(given, with_prior, given.size()), 1e-6);
  const std::vector<double> parts = this->download(sums);
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0),
               whole = testing::inner(to64(p), to64(given)).real();
  EXPECT_NEAR(sum, whole,
              1e-9 * std::sqrt(testing::inner(to64(p), to64(p)).real()) *
                  std::sqrt(testing::inner(to64(given), to64(given)).real()));
}

// Sides of many points and few waves, and of few points and many waves. Sums of some thousand terms in fp32.
TYPED_TEST(NlinvTest, LongSidesAreTheirSums) {
  struct Case {
    std::int64_t ny, nx, my, mx;
    double smoothness;  // waves up to my and mx weigh 1e-5 or more
  };
  for (const Case& side :
       {Case{100, 86, 2, 2, 1365}, Case{90, 6, 2, 0, 1365}, Case{92, 4, 45, 1, 4}, Case{4, 86, 1, 42, 4}}) {
    NlinvReference r;
    r.coils = 2;
    r.ny = r.fy = static_cast<std::size_t>(side.ny);
    r.nx = r.fx = static_cast<std::size_t>(side.nx);
    r.my = side.my;
    r.mx = side.mx;
    r.options.smoothness = side.smoothness;
    Context& context = this->context();
    const Shape image{side.ny, side.nx}, images{2, side.ny, side.nx};
    const NlinvProblem problem = make_nlinv_problem(context, 2, image, image, r.options);
    const auto n = problem.unknowns();
    ASSERT_EQ(n, static_cast<std::int64_t>(r.unknowns()));
    const auto x = Random(2).normals(n), p = Random(3).normals(n), y = Random(4).normals(2 * problem.voxels());
    const auto x_there = this->upload(x, {n}), p_there = this->upload(p, {n}), y_there = this->upload(y, images);
    auto c = context.template allocate<cfloat>(images), z = context.template allocate<cfloat>(images);
    auto h = context.template allocate<cfloat>({n});
    auto sums = context.template allocate<double>({on_backend::nlinv_back_sums(context, problem)});
    on_backend::nlinv_product(context, problem, nullptr, nullptr, x_there.data(), c.data());
    on_backend::nlinv_product(context, problem, x_there.data(), c.data(), p_there.data(), z.data());
    EXPECT_LT(testing::relative_error(this->download(z), r.derivative(to64(x), to64(p)), y.size()), 3e-6);
    on_backend::nlinv_back(context, problem, 1.0f, 0.0f, x_there.data(), c.data(), y_there.data(), p_there.data(),
                           h.data(), sums.data());
    const std::vector<cfloat> back = this->download(h);
    EXPECT_LT(testing::relative_error(back, r.adjoint(to64(x), to64(y)), back.size()), 3e-6);
    const std::vector<double> parts = this->download(sums);
    const double whole = testing::inner(to64(p), to64(back)).real();
    EXPECT_NEAR(
        std::accumulate(parts.begin(), parts.end(), 0.0), whole,
        1e-9 * std::sqrt(testing::inner(to64(p), to64(p)).real() * testing::inner(to64(back), to64(back)).real()));
  }
}

TYPED_TEST(NlinvTest, GriddedFramesAreTheirSums) {
  const Tiny tiny;
  TinyFrame own(this->context(), tiny);
  this->expect_sums(own.get(), tiny.reference, tiny.data, {tiny.coils(), tiny.image()[0], tiny.image()[1]});
}

// One Newton step with enough conjugate gradients against a dense solution. alpha keeps the condition number below some
// 1e3, and so the error of fp32 below 1e-4.
TYPED_TEST(NlinvTest, ANewtonStepSolvesItsEquations) {
  Tiny tiny;
  NlinvReference& r = tiny.reference;
  r.options.newton_steps = 1;
  r.options.first_passes = 1;
  r.options.inner = 60;
  TinyFrame own(this->context(), tiny);
  Nlinv nlinv(this->context(), tiny.coils(), tiny.image(), tiny.field(), r.options);
  auto image = this->context().template allocate<cfloat>(tiny.image());
  nlinv.solve(own.get(), image.view());
  const Vector64 x = r.newton_step(tiny.factor(), tiny.data);
  EXPECT_LT(testing::relative_error(this->unknowns(nlinv), x, x.size()), 1e-4);
}

// The same steps in float64. What fp32 and the NUFFT are off by grows with the steps of conjugate gradients, but steps
// that converge forget it: some 1e-5 of the unknowns.
TYPED_TEST(NlinvTest, FramesFollowTheirDefinition) {
  Context& context = this->context();
  const Tiny first(1), second(7);
  const NlinvReference& r = first.reference;
  TinyFrame one(context, first), two(context, second);
  Nlinv nlinv(context, first.coils(), first.image(), first.field(), r.options);
  auto image = context.template allocate<cfloat>(first.image()), middle = context.template allocate<cfloat>({3, 4});
  const double factor = first.factor();

  const NlinvResult result = nlinv.solve(one.get(), image.view());
  Vector64 x = r.solve(r.start(), r.start(), factor, first.data);
  x = r.solve(x, r.damped(x), factor, first.data);  // the second pass
  EXPECT_LT(testing::relative_error(this->unknowns(nlinv), x, x.size()), 2e-3);
  const Vector64 picture = r.picture(x, factor);
  EXPECT_LT(testing::relative_error(this->download(image), picture, picture.size()), 2e-3);
  EXPECT_NEAR(result.power, r.power(first.data), 1e-6 * result.power);
  Vector64 left = r.forward(r.image_of(x));
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = left[i] / factor - first.data[i];
  const double residual = std::sqrt(r.power(left) / r.power(first.data));
  EXPECT_NEAR(result.residual, residual, 2e-3);
  EXPECT_GT(residual, 1e-2);  // otherwise the line above tests nothing

  nlinv.solve(two.get(), middle.view());
  const Vector64 next = second.reference.solve(x, r.damped(x), factor, second.data);
  EXPECT_LT(testing::relative_error(this->unknowns(nlinv), next, next.size()), 2e-3);
  const Vector64 whole = second.reference.picture(next, factor);
  Vector64 cut;
  for (std::size_t y = 0; y < 3; ++y)
    for (std::size_t v = 0; v < 4; ++v) cut.push_back(whole[(y + 2) * r.nx + v + 1]);
  EXPECT_LT(testing::relative_error(this->download(middle), cut, cut.size()), 2e-3);

  // The first frame again after the state is forgotten.
  nlinv.reset();
  auto again = context.template allocate<cfloat>(first.image());
  nlinv.solve(one.get(), again.view());
  EXPECT_EQ(this->download(again), this->download(image));
}

// On CUDA the steps of the second frame are recorded, and those of the frames after it are launched as they were
// recorded. Frames differ in everything, and one is twice as large as the others. Bounds are those of the test above.
TYPED_TEST(NlinvTest, FramesInTheSameMemoryFollowTheirDefinition) {
  Context& context = this->context();
  const Tiny first(1);
  TinyFrame frame(context, first);
  Nlinv nlinv(context, first.coils(), first.image(), first.field(), first.reference.options);
  auto image = context.template allocate<cfloat>(first.image());
  const double factor = first.factor();
  nlinv.solve(frame.get(), image.view());
  Vector64 x = first.reference.solve(first.reference.start(), first.reference.start(), factor, first.data);
  x = first.reference.solve(x, first.reference.damped(x), factor, first.data);
  for (const unsigned seed : {7U, 9U, 11U}) {
    Tiny next(seed, seed == 9U ? 75 : 60);
    if (seed == 9U) {
      for (cdouble& v : next.data) v *= 2.0;
    }
    frame.fill(next);
    const NlinvResult result = nlinv.solve(frame.get(), image.view());
    x = next.reference.solve(x, next.reference.damped(x), factor, next.data);
    EXPECT_LT(testing::relative_error(this->unknowns(nlinv), x, x.size()), 2e-3) << seed;
    const Vector64 picture = next.reference.picture(x, factor);
    EXPECT_LT(testing::relative_error(this->download(image), picture, picture.size()), 2e-3) << seed;
    EXPECT_NEAR(result.power, next.reference.power(next.data), 1e-6 * result.power) << seed;
  }
}

TYPED_TEST(NlinvTest, BadFramesGiveNoImageAndAreForgotten) {
  Context& context = this->context();
  const Tiny good;
  Tiny bad = good, none = good;
  bad.data[5] = std::numeric_limits<float>::quiet_NaN();
  for (auto& v : none.data) v = 0;
  TinyFrame frame(context, good), broken(context, bad), empty(context, none);
  Nlinv nlinv(context, good.coils(), good.image(), good.field(), good.reference.options);
  auto image = context.template allocate<cfloat>(good.image()), other = context.template allocate<cfloat>(good.image());
  const std::vector<cfloat> zeros(static_cast<std::size_t>(good.image().size()));
  EXPECT_EQ(nlinv.solve(empty.get(), image.view()).power, 0);
  EXPECT_EQ(this->download(image), zeros);
  nlinv.solve(frame.get(), image.view());
  EXPECT_NE(this->download(image), zeros);
  const NlinvResult result = nlinv.solve(broken.get(), other.view());
  EXPECT_FALSE(std::isfinite(result.power) && std::isfinite(result.residual));
  EXPECT_EQ(this->download(other), zeros);
  nlinv.solve(frame.get(), other.view());
  EXPECT_EQ(this->download(other), this->download(image));
}

TYPED_TEST(NlinvTest, RefusesWhatDoesNotFit) {
  Context& context = this->context();
  EXPECT_THROW(Nlinv(context, 0, {8, 8}, {16, 16}, {}), std::invalid_argument);
  EXPECT_THROW(Nlinv(context, 2, {8, 8}, {16, 7}, {}), std::invalid_argument);
  EXPECT_THROW(Nlinv(context, 2, {1, 8}, {16, 16}, {}), std::invalid_argument);
  NlinvOptions options;
  options.newton_steps = 0;
  EXPECT_THROW(Nlinv(context, 2, {8, 8}, {16, 16}, options), std::invalid_argument);
  options = {};
  options.reduction = 2;
  EXPECT_THROW(Nlinv(context, 2, {8, 8}, {16, 16}, options), std::invalid_argument);
  const Tiny tiny;
  TinyFrame frame(context, tiny);
  Nlinv nlinv(context, tiny.coils(), tiny.image(), tiny.field(), tiny.reference.options);
  auto larger = context.template allocate<cfloat>({8, 6});
  EXPECT_THROW(nlinv.solve(frame.get(), larger.view()), std::invalid_argument);
  NlinvFrame other = frame.get();
  other.right = larger.cview();
  auto image = context.template allocate<cfloat>(tiny.image());
  EXPECT_THROW(nlinv.solve(other, image.view()), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
