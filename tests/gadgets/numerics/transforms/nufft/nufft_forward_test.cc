// The forward NUFFT against the float64 direct sum, and against its adjoint.
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"
#include "tests/support/nufft_problem.h"
#include "tests/support/resources.h"
#include "tests/support/thread_digests.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::fewer;
using testing::make_problem;
using testing::Problem;
using testing::Random;
using testing::tolerance;
using testing::with_coils;

std::vector<cfloat> random_image(const Problem& p) { return Random(7).normals(p.coils * p.image.size()); }

/// sum conj(a) b
cdouble inner(const std::vector<cfloat>& a, const std::vector<cfloat>& b) {
  cdouble sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::conj(cdouble(a[i])) * cdouble(b[i]);
  return sum;
}

template <class B>
class NufftForwardTest : public testing::OnNufftProblem<B> {
 protected:
  std::vector<cfloat> forward(const Problem& p, const NufftPlan& made, const std::vector<cfloat>& values) {
    auto image = this->upload(values, with_coils(p.coils, p.image));
    // Earlier contents must not show.
    auto samples =
        this->upload(std::vector<cfloat>(static_cast<std::size_t>(p.count() * p.coils), {3, 4}), {p.count(), p.coils});
    made.forward(this->context(), image.cview(), samples.view());
    return this->download(samples);
  }
  void expect_right(const Problem& p, double factor = 1) {
    const auto made = this->plan(p);
    const auto image = random_image(p), samples = forward(p, *made, image);
    const auto truth = testing::direct_forward(p.coordinates, image, p.coils, p.image);
    this->expect_close(samples, truth, p, *made, factor);
  }
  /// The same at every `step`-th sample, because all would take too long.
  void expect_right_at_some(const Problem& p, std::int64_t step) {
    const auto made = this->plan(p);
    const auto image = random_image(p), samples = forward(p, *made, image);
    std::vector<std::int64_t> chosen;
    std::vector<cfloat> some;
    for (std::int64_t s = 0; s < p.count(); s += step) {
      chosen.push_back(s);
      for (std::int64_t c = 0; c < p.coils; ++c) some.push_back(samples[static_cast<std::size_t>(s * p.coils + c)]);
    }
    const auto truth = testing::direct_forward(p.coordinates, image, p.coils, p.image, chosen);
    this->expect_close(some, truth, p, *made);
  }
  /// Each coil by itself, of values about as great as its scale.
  void expect_right_coils(const Problem& p, const std::vector<float>& scales) {
    const auto coils = static_cast<std::size_t>(p.coils);
    auto image = random_image(p);
    for (std::size_t i = 0; i < image.size(); ++i) image[i] *= scales[i / (image.size() / coils)];
    const auto made = this->plan(p);
    const auto samples = forward(p, *made, image);
    const auto truth = testing::direct_forward(p.coordinates, image, p.coils, p.image);
    for (std::size_t c = 0; c < coils; ++c) {
      double error = 0, all = 0;
      for (std::size_t i = c; i < samples.size(); i += coils) {
        error += std::norm(cdouble(samples[i]) - cdouble(truth[i]));
        all += std::norm(cdouble(truth[i]));
      }
      EXPECT_LT(std::sqrt(error / all), tolerance(p.options, p.image, made->grid_shape()))
          << p.image.text() << " " << scales[c];
    }
  }
};
TYPED_TEST_SUITE(NufftForwardTest, Backends, testing::BackendNames);

TYPED_TEST(NufftForwardTest, EveryWidthAndOversampling) {
  unsigned seed = 1;
  for (int width = 2; width <= 8; ++width)
    for (double oversampling : fewer<std::vector<double>>({1.25, 1.5, 1.77, 2.0}, {1.25, 2.0})) {
      this->expect_right(make_problem({70}, 3, {width, oversampling}, 700, seed++));
      this->expect_right(make_problem({24, 33}, 2, {width, oversampling}, 700, seed++));
      this->expect_right(make_problem({11, 14, 12}, 4, {width, oversampling}, 300, seed++));
    }
}

TYPED_TEST(NufftForwardTest, OddEvenAndAnisotropicSizes) {
  for (const Problem& p : testing::problems_of_odd_sizes()) this->expect_right(p);
}

TYPED_TEST(NufftForwardTest, EveryLengthOfItsOwn) {
  for (const Problem& p : testing::problems_of_own_lengths())
    this->expect_right_at_some(p, p.image.rank() == 3 ? 7 : 5);
}

// Grids whose points are not all needed: CUDA leaves out those that no sample is near, and what is in their memory must
// not show.
TYPED_TEST(NufftForwardTest, SamplesInAPartOfKSpace) {
  unsigned seed = 600;
  for (const Shape& size : {Shape{64, 128}, Shape{53, 53, 53}})
    for (int width : {2, 4, 7})
      for (const double centre : {0.0, 0.31, 0.5}) {
        const Problem p = testing::confined(make_problem(size, 2, {width, 1.5}, 600, seed++), centre, 0.06);
        const float nan = std::numeric_limits<float>::quiet_NaN();
        const Shape grid = this->plan(p)->grid_shape();
        this->upload(std::vector<cfloat>(static_cast<std::size_t>(2 * grid.size()), {nan, nan}), with_coils(2, grid));
        this->expect_right_at_some(p, 7);
      }
}

// No coil's accuracy suffers from a coil beside it, however much greater its values are.
TYPED_TEST(NufftForwardTest, CoilsOfAnyMagnitude) {
  for (const Shape& size : {Shape{75}, Shape{31, 26}, Shape{9, 12, 11}})
    this->expect_right_coils(make_problem(size, 6, {6, 2}, 400, 83), {1e8f, 1e4f, 1, 1e-4f, 1e-8f, 1e-12f});
}

// Nor does it where values are close to the greatest and the least of single precision. CUDA transforms these extents
// without cuFFT, which need not keep the least numbers.
TYPED_TEST(NufftForwardTest, CoilsOfTheGreatestAndLeastValues) {
  for (const Shape& size : {Shape{40, 48}, Shape{40, 40, 40}})
    this->expect_right_coils(make_problem(size, 3, {6, 2}, 200, 84), {1e33f, 1e-35f, 1e-36f});
}

TYPED_TEST(NufftForwardTest, EveryNumberOfCoils) {
  for (std::int64_t coils = 1; coils <= 17; ++coils) {
    this->expect_right(make_problem({75}, coils, {4, 1.5}, 200, static_cast<unsigned>(100 + coils)));
    this->expect_right(make_problem({20, 14}, coils, {4, 1.5}, 200, static_cast<unsigned>(200 + coils)));
    this->expect_right(make_problem({7, 9, 8}, coils, {4, 1.5}, 150, static_cast<unsigned>(300 + coils)));
  }
}

TYPED_TEST(NufftForwardTest, PointsOnGridLines) {
  this->with_points_on_lines({{53}, {31, 26}, {9, 12, 11}},
                             [&](const Problem& p, double factor) { this->expect_right(p, factor); });
}

TYPED_TEST(NufftForwardTest, LargeOddPlane) {
  this->expect_right_at_some(make_problem({193, 211}, 8, {5, 1.5}, fewer(30000, 3000), 51), 97);
}

TYPED_TEST(NufftForwardTest, LargeOddVolume) {
  this->expect_right_at_some(make_problem({65, 63, 64}, 2, {5, 1.5}, fewer(30000, 3000), 52), 211);
}

// More samples in a bin than one piece of work takes.
TYPED_TEST(NufftForwardTest, DenseCentre) {
  for (const Shape& size : {Shape{50}, Shape{31, 26}, Shape{9, 12, 11}})
    this->expect_right(make_problem(size, 5, {5, 1.5}, 12000, 61));
}

TYPED_TEST(NufftForwardTest, TheSamePointManyTimes) {
  Problem p = make_problem({31, 26}, 3, {5, 1.5}, 3000, 62);
  for (std::size_t s = 0; s < 3000; ++s) {
    p.coordinates[2 * s] = -0.123;
    p.coordinates[2 * s + 1] = 0.4999;
  }
  const auto samples = this->forward(p, *this->plan(p), random_image(p));
  for (std::size_t s = 1; s < 3000; ++s)
    ASSERT_EQ(std::memcmp(samples.data(), samples.data() + 3 * s, 3 * sizeof(cfloat)), 0) << s;
}

TYPED_TEST(NufftForwardTest, OneVoxelIsAWave) {
  Problem p = make_problem({32, 30}, 1, {6, 1.5}, 200, 63);
  std::vector<cfloat> image(32 * 30);
  image[20 * 30 + 11] = {2, -1};  // r = (x, y) = (-4, 4)
  const auto made = this->plan(p);
  const auto samples = this->forward(p, *made, image);
  for (std::size_t s = 0; s < 200; ++s) {
    const double phase = -2 * std::numbers::pi * (-4 * p.coordinates[2 * s] + 4 * p.coordinates[2 * s + 1]);
    const cdouble truth = cdouble(2, -1) * std::polar(1.0, phase);
    // One voxel near the centre, at one position, is at most a few times worse than the mean over both.
    EXPECT_LT(std::abs(cdouble(samples[s]) - truth), 5 * tolerance(p.options, p.image, made->grid_shape())) << s;
  }
}

// Kernel and factors are the same numbers in both directions, so only rounding is left, whatever the kernel's error.
TYPED_TEST(NufftForwardTest, IsTheTransposeOfTheAdjoint) {
  unsigned seed = 70;
  for (const Shape& size : {Shape{301}, Shape{45, 38}, Shape{17, 20, 15}})
    for (int width : {3, 5, 8})
      for (std::int64_t coils : {1, 6}) {
        Problem p = make_problem(size, coils, {width, 1.5}, 5000, seed++);
        const auto made = this->plan(p);
        const auto x = random_image(p);
        const auto forward = this->forward(p, *made, x);
        auto samples = this->upload(p.samples, {p.count(), p.coils});
        auto image = this->context().template allocate<cfloat>(with_coils(p.coils, p.image));
        made->adjoint(this->context(), samples.cview(), {}, image.view());
        const cdouble left = inner(forward, p.samples), right = inner(x, this->download(image));
        EXPECT_LT(std::abs(left - right), 1e-5 * std::abs(left)) << size.text() << " width " << width;
      }
}

TYPED_TEST(NufftForwardTest, StepsEqualTheWholeAndAreTransposes) {
  Problem p = make_problem({21, 26}, 6, {5, 1.5}, 500, 92);
  const auto made = this->plan(p);
  const auto x = random_image(p);
  const Shape grid_shape = with_coils(p.coils, made->grid_shape()), image_shape = with_coils(p.coils, p.image);
  auto& context = this->context();
  auto image = this->upload(x, image_shape);
  auto grid = context.template allocate<cfloat>(grid_shape);
  auto samples = context.template allocate<cfloat>({p.count(), p.coils});
  made->apodize(context, image.cview(), grid.view());
  const auto apodized = this->download(grid);
  fft(context, grid.view(), 2, Direction::forward);
  made->interpolate(context, grid.cview(), samples.view());
  const auto whole = this->forward(p, *made, x), steps = this->download(samples);
  EXPECT_LT(testing::relative_error(steps, whole, whole.size()), 1e-6);

  const auto noise = Random(8).normals(grid_shape.size());
  grid = this->upload(noise, grid_shape);
  made->deapodize(context, grid.cview(), image.view());
  cdouble left = inner(apodized, noise), right = inner(x, this->download(image));
  EXPECT_LT(std::abs(left - right), 1e-5 * std::abs(left));

  made->interpolate(context, grid.cview(), samples.view());
  const auto interpolated = this->download(samples);
  auto other = this->upload(p.samples, {p.count(), p.coils});
  made->grid(context, other.cview(), {}, grid.view());
  left = inner(interpolated, p.samples), right = inner(noise, this->download(grid));
  EXPECT_LT(std::abs(left - right), 1e-5 * std::abs(left));
}

// A sample whose coordinates are not finite takes no part; the others are as without it.
TYPED_TEST(NufftForwardTest, CoordinatesThatAreNotFinite) {
  Problem p = make_problem({16, 18}, 5, {5, 1.5}, 100, 81);
  const auto image = random_image(p);
  auto expected = this->forward(p, *this->plan(p), image);
  p.coordinates[2 * 10] = std::numeric_limits<double>::quiet_NaN();
  p.coordinates[2 * 20 + 1] = std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < 5; ++c) expected[5 * 10 + c] = expected[5 * 20 + c] = 0;
  EXPECT_EQ(this->forward(p, *this->plan(p), image), expected);
}

TYPED_TEST(NufftForwardTest, NoSamplesAndNoCoils) {
  Problem p{{12, 10}, 2, {5, 1.5}, {}, {}, {}};
  EXPECT_TRUE(this->forward(p, *this->plan(p), random_image(p)).empty());
  p = make_problem({12, 10}, 0, {5, 1.5}, 10, 82);
  EXPECT_TRUE(this->forward(p, *this->plan(p), {}).empty());
}

TYPED_TEST(NufftForwardTest, SameBitsInEveryRun) {
  Problem p = make_problem({65, 70}, 5, {5, 1.5}, 20000, 91);
  const auto image = random_image(p);
  const auto first = this->forward(p, *this->plan(p), image);
  for (int run = 0; run < 3; ++run) {
    const auto again = this->forward(p, *this->plan(p), image);
    ASSERT_EQ(std::memcmp(first.data(), again.data(), first.size() * sizeof(cfloat)), 0);
  }
}

TYPED_TEST(NufftForwardTest, SmallBudgetTakesCoilsInParts) {
  Problem p = make_problem({64, 64}, 16, {5, 1.5}, 3000, 94);
  const auto x = random_image(p), whole = this->forward(p, *this->plan(p), x);
  // Samples, images and the plan need about 1.2 MB; the sixteen grids alone would need 1.2 MB more.
  this->context_ =
      std::make_unique<Context>(TypeParam::kBackend, test_resources(), ContextOptions{.memory_budget = 1900000});
  auto made = this->plan(p);
  auto image = this->upload(x, {16, 64, 64});
  auto samples = this->context().template allocate<cfloat>({p.count(), p.coils});
  const auto before = this->context().bytes_in_use();
  ASSERT_GT(before + 16 * 96 * 96 * 8, 1900000u);
  made->forward(this->context(), image.cview(), samples.view());
  EXPECT_EQ(this->context().bytes_in_use(), before);
  std::vector<cfloat> parts(whole.size());
  this->context().template copy<cfloat>(samples.cview(), HostView<cfloat>(parts.data(), samples.shape()));
  this->context().synchronize();
  EXPECT_LT(testing::relative_error(parts, whole, whole.size()), 1e-6);
}

// A plan is shared between sessions and may outlive the one that made it.
TYPED_TEST(NufftForwardTest, PlanOutlivesItsContext) {
  Problem p = make_problem({31, 26}, 2, {5, 1.5}, 800, 96);
  const auto x = random_image(p);
  auto made = this->plan(p);
  this->context_ = std::make_unique<Context>(TypeParam::kBackend, test_resources());
  auto image = this->upload(x, {2, 31, 26});
  auto samples = this->context().template allocate<cfloat>({800, 2});
  made->forward(this->context(), image.cview(), samples.view());
  made = {};
  const auto truth = testing::direct_forward(p.coordinates, x, p.coils, p.image);
  EXPECT_LT(testing::relative_error(this->download(samples), truth, truth.size()), 1e-3);
}

TYPED_TEST(NufftForwardTest, BadArguments) {
  const std::vector<double> k(8, 0.1);
  auto& context = this->context();
  const auto made = NufftPlan::make(context, {k.data(), {4, 2}}, {8, 8}, {5, 1.5});
  ASSERT_EQ(made->grid_shape(), (Shape{12, 12}));
  const auto zeros = [&](const Shape& shape) { return context.template zeros<cfloat>(shape); };
  auto image = zeros({2, 8, 8}), three = zeros({3, 8, 8}), wide = zeros({2, 8, 9}), flat = zeros({8, 8});
  auto samples = zeros({4, 2}), five = zeros({5, 2}), bare = zeros({8});
  auto grid = zeros({2, 12, 12}), small = zeros({2, 12, 10});
  const auto forward = [&](Array<cfloat>& from, Array<cfloat>& to) { made->forward(context, from.cview(), to.view()); };
  EXPECT_THROW(forward(three, samples), std::invalid_argument);
  EXPECT_THROW(forward(wide, samples), std::invalid_argument);
  EXPECT_THROW(forward(flat, samples), std::invalid_argument);
  EXPECT_THROW(forward(image, five), std::invalid_argument);
  EXPECT_THROW(forward(image, bare), std::invalid_argument);
  EXPECT_THROW(made->apodize(context, image.cview(), small.view()), std::invalid_argument);
  EXPECT_THROW(made->apodize(context, three.cview(), grid.view()), std::invalid_argument);
  EXPECT_THROW(made->interpolate(context, small.cview(), samples.view()), std::invalid_argument);
  EXPECT_THROW(made->interpolate(context, grid.cview(), five.view()), std::invalid_argument);
  forward(image, samples);
  if (context.cuda()) {
    Context other(Backend::cpu, test_resources());
    EXPECT_THROW(made->forward(other, image.cview(), samples.view()), std::invalid_argument);
  }
}

TEST(NufftForwardThreads, SameBitsForAnyNumberOfThreads) {
  testing::expect_same_bits(2, [](Context& context, const testing::NoteBits& note) {
    for (const Shape& size : {Shape{65, 70}, Shape{40, 33, 36}}) {
      const Problem p = make_problem(size, 5, {5, 1.5}, 40000, 91);
      const auto x = random_image(p);
      const auto plan = NufftPlan::make(
          context, {p.coordinates.data(), {p.count(), static_cast<std::int64_t>(size.rank())}}, size, p.options);
      auto samples = context.allocate<cfloat>({p.count(), 5});
      const auto image = context.upload<cfloat>({x.data(), with_coils(5, size)});
      plan->forward(context, image.view(), samples.view());
      note(samples.data(), samples.size(), size.text());
    }
  });
}

}  // namespace
}  // namespace echotrain::numerics
