// Gridding in steps: samples added to a grid and taken away again, and a grid turned into images.
#include <cmath>
#include <cstring>
#include <limits>

#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"
#include "tests/support/nufft_problem.h"
#include "tests/support/resources.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::make_problem;
using testing::Problem;
using testing::tolerance;

template <class B>
class NufftIncrementalTest : public testing::OnBackend<B> {
 protected:
  std::shared_ptr<const NufftPlan> plan(const Problem& p, NufftUse use) {
    NufftOptions options = p.options;
    options.use = use;
    return NufftPlan::make(this->context(),
                           {p.coordinates.data(), {p.count(), static_cast<std::int64_t>(p.image.rank())}}, p.image,
                           options);
  }
  static Shape with_coils(std::int64_t coils, const Shape& item) {
    Shape shape{coils};
    for (auto e : item) shape.push_back(e);
    return shape;
  }
  Array<cfloat> empty_grid(const Problem& p, const NufftPlan& made) {
    return this->context().template zeros<cfloat>(with_coils(p.coils, made.grid_shape()));
  }
  /// The samples [begin, end) of the problem.
  void accumulate(const Problem& p, const NufftPlan& made, std::int64_t begin, std::int64_t end, float sign,
                  Array<cfloat>& grid) {
    const auto samples =
        this->context().template upload<cfloat>({p.samples.data() + begin * p.coils, {end - begin, p.coils}});
    Array<float> weights;
    if (!p.weights.empty()) weights = this->context().template upload<float>({p.weights.data() + begin, {end - begin}});
    made.accumulate(this->context(), begin, samples.cview(), weights.cview(), sign, grid.view());
  }
  std::vector<cfloat> images(const Problem& p, const NufftPlan& made, Array<cfloat>& grid) {
    auto image = this->context().template allocate<cfloat>(with_coils(p.coils, p.image));
    made.to_images(this->context(), grid.view(), image.view());
    return this->download(image);
  }
  /// Some batches of very different sizes.
  static std::vector<std::int64_t> cuts(std::int64_t n) { return {0, 1, 2, n / 50, n / 3, n / 3 + 1, n - 7, n}; }
};
TYPED_TEST_SUITE(NufftIncrementalTest, Backends, testing::BackendNames);

TYPED_TEST(NufftIncrementalTest, BatchesGiveTheWhole) {
  unsigned seed = 500;
  for (const Shape& size : {Shape{50}, Shape{33, 26}, Shape{97, 110}, Shape{12, 9, 15}})
    for (std::int64_t coils : {1, 3, 8, 17}) {
      const Problem p = make_problem(size, coils, {5, 1.5}, 3000, seed++);
      const auto truth = testing::direct_adjoint(p.coordinates, p.samples, p.weights, p.coils, p.image);
      for (const NufftUse use : {NufftUse::all, NufftUse::accumulate}) {
        const auto made = this->plan(p, use);
        Array<cfloat> grid = this->empty_grid(p, *made);
        const auto at = this->cuts(p.count());
        for (std::size_t i = 0; i + 1 < at.size(); ++i) this->accumulate(p, *made, at[i], at[i + 1], 1, grid);
        const auto image = this->images(p, *made, grid);
        EXPECT_LT(testing::relative_error(image, truth, image.size()),
                  tolerance(p.options, p.image, made->grid_shape()))
            << size.text() << " x " << coils;
      }
    }
}

// Against gridding at once: only the order of fp32 sums differs. Some hundred samples meet in the densest point, each
// of which rounds by 6e-8. CUDA's tensor cores truncate instead (Fasi et al., "Numerical behavior of NVIDIA tensor
// cores", PeerJ Comp. Sci. 7, 2021): a batch of 32 samples in three products is 12 additions, each of which takes up to
// 2^-23 of the sum away, always towards zero.
TYPED_TEST(NufftIncrementalTest, AgreesWithGriddingAtOnce) {
  for (const Shape& size : {Shape{64, 61}, Shape{20, 21, 18}}) {
    const Problem p = make_problem(size, 5, {5, 1.5}, 20000, 521);
    const auto made = this->plan(p, NufftUse::adjoint);
    auto samples = this->upload(p.samples, {p.count(), p.coils});
    auto weights = this->upload(p.weights, {p.count()});
    auto whole = this->context().template allocate<cfloat>(this->with_coils(p.coils, made->grid_shape()));
    made->grid(this->context(), samples.cview(), weights.cview(), whole.view());
    Array<cfloat> grid = this->empty_grid(p, *made);
    const auto at = this->cuts(p.count());
    for (std::size_t i = 0; i + 1 < at.size(); ++i) this->accumulate(p, *made, at[i], at[i + 1], 1, grid);
    const auto steps = this->download(grid), once = this->download(whole);
    EXPECT_LT(testing::relative_error(steps, once, once.size()), this->context().cuda() ? 1e-6 + 12 * 0x1p-23 : 1e-6)
        << size.text();
  }
}

TYPED_TEST(NufftIncrementalTest, WhatIsTakenAwayIsGone) {
  Problem p = make_problem({41, 46}, 4, {5, 1.5}, 4000, 531);
  const auto made = this->plan(p, NufftUse::accumulate);
  Array<cfloat> grid = this->empty_grid(p, *made);
  this->accumulate(p, *made, 0, 4000, 1, grid);
  this->accumulate(p, *made, 0, 1500, -1, grid);
  this->accumulate(p, *made, 1500, 1501, -1, grid);
  const auto image = this->images(p, *made, grid);
  std::fill_n(p.weights.begin(), 1501, 0.0f);
  const auto truth = testing::direct_adjoint(p.coordinates, p.samples, p.weights, p.coils, p.image);
  EXPECT_LT(testing::relative_error(image, truth, image.size()), tolerance(p.options, p.image, made->grid_shape()));
}

// Each batch with a plan made by that of other samples.
TYPED_TEST(NufftIncrementalTest, PlansMadeByAnother) {
  for (const Shape& size : {Shape{50}, Shape{97, 110}, Shape{12, 9, 15}}) {
    const Problem p = make_problem(size, 5, {5, 1.5}, 3000, 551);
    const Problem other = make_problem(size, 5, {5, 1.5}, 10, 552);
    const auto rank = static_cast<std::int64_t>(p.image.rank());
    const auto one = this->plan(other, NufftUse::all);
    Array<cfloat> grid = this->empty_grid(p, *one);
    const auto at = this->cuts(p.count());
    std::shared_ptr<const NufftPlan> made;
    for (std::size_t i = 0; i + 1 < at.size(); ++i) {
      const std::int64_t count = at[i + 1] - at[i];
      made = one->with_samples(this->context(), {p.coordinates.data() + at[i] * rank, {count, rank}});
      EXPECT_EQ(made->samples(), count);
      const auto samples =
          this->context().template upload<cfloat>({p.samples.data() + at[i] * p.coils, {count, p.coils}});
      const auto weights = this->context().template upload<float>({p.weights.data() + at[i], {count}});
      made->accumulate(this->context(), 0, samples.cview(), weights.cview(), 1, grid.view());
      EXPECT_THROW(made->grid(this->context(), samples.cview(), weights.cview(), grid.view()), std::invalid_argument);
    }
    const auto truth = testing::direct_adjoint(p.coordinates, p.samples, p.weights, p.coils, p.image);
    const auto image = this->images(p, *made, grid);
    EXPECT_LT(testing::relative_error(image, truth, image.size()), tolerance(p.options, p.image, made->grid_shape()))
        << size.text();
    Context another(TypeParam::kBackend, test_resources());
    if (another.cuda()) {
      EXPECT_THROW(one->with_samples(another, {p.coordinates.data(), {1, rank}}), std::invalid_argument);
    }
  }
}

TYPED_TEST(NufftIncrementalTest, WithoutWeightsAndWithoutSamples) {
  Problem p = make_problem({16, 18}, 3, {5, 1.5}, 300, 541);
  p.weights.clear();
  const auto made = this->plan(p, NufftUse::accumulate);
  Array<cfloat> grid = this->empty_grid(p, *made);
  this->accumulate(p, *made, 0, 300, 1, grid);
  this->accumulate(p, *made, 300, 300, 1, grid);
  const auto truth = testing::direct_adjoint(p.coordinates, p.samples, p.weights, p.coils, p.image);
  const auto image = this->images(p, *made, grid);
  EXPECT_LT(testing::relative_error(image, truth, image.size()), tolerance(p.options, p.image, made->grid_shape()));
}

TYPED_TEST(NufftIncrementalTest, CoordinatesThatAreNotFiniteTakeNoPart) {
  Problem p = make_problem({16, 18}, 2, {5, 1.5}, 100, 551);
  p.coordinates[2 * 10] = std::numeric_limits<double>::quiet_NaN();
  p.coordinates[2 * 20 + 1] = std::numeric_limits<double>::infinity();
  p.samples[2 * 10] = {std::numeric_limits<float>::quiet_NaN(), 0};
  const auto made = this->plan(p, NufftUse::accumulate);
  Array<cfloat> grid = this->empty_grid(p, *made);
  this->accumulate(p, *made, 0, 100, 1, grid);
  const auto image = this->images(p, *made, grid);
  for (const std::size_t s : {10, 20}) {
    p.weights[s] = 0;
    p.samples[2 * s] = 0;
    p.coordinates[2 * s] = p.coordinates[2 * s + 1] = 0;
  }
  const auto truth = testing::direct_adjoint(p.coordinates, p.samples, p.weights, p.coils, p.image);
  EXPECT_LT(testing::relative_error(image, truth, image.size()), tolerance(p.options, p.image, made->grid_shape()));
}

TYPED_TEST(NufftIncrementalTest, ToImagesIsTransformAndDeapodization) {
  for (const Shape& size : {Shape{40}, Shape{33, 26}, Shape{12, 9, 15}}) {
    const Problem p = make_problem(size, 3, {5, 1.5}, 1000, 561);
    const auto made = this->plan(p, NufftUse::accumulate);
    Array<cfloat> grid = this->empty_grid(p, *made);
    this->accumulate(p, *made, 0, 1000, 1, grid);
    auto copy = this->context().template allocate<cfloat>(grid.shape());
    this->context().template copy<cfloat>(grid.cview(), copy.view());
    const auto image = this->images(p, *made, grid);
    fft(this->context(), copy.view(), static_cast<int>(size.rank()), Direction::inverse);
    auto steps = this->context().template allocate<cfloat>(this->with_coils(p.coils, size));
    made->deapodize(this->context(), copy.cview(), steps.view());
    // Two orders of one FFT, each rounding by some 1e-7.
    EXPECT_LT(testing::relative_error(image, this->download(steps), image.size()), 1e-6) << size.text();
  }
}

TYPED_TEST(NufftIncrementalTest, PlansDoWhatTheyWereMadeFor) {
  const Problem p = make_problem({8, 8}, 1, {5, 1.5}, 10, 571);
  auto samples = this->context().template zeros<cfloat>({10, 1});
  auto image = this->context().template zeros<cfloat>({1, 8, 8});
  const auto all = this->plan(p, NufftUse::all), adjoint = this->plan(p, NufftUse::adjoint),
             accumulate = this->plan(p, NufftUse::accumulate);
  EXPECT_GT(all->bytes(), adjoint->bytes());
  EXPECT_GT(adjoint->bytes(), accumulate->bytes());
  all->forward(this->context(), image.cview(), samples.view());
  EXPECT_THROW(adjoint->forward(this->context(), image.cview(), samples.view()), std::invalid_argument);
  EXPECT_THROW(accumulate->forward(this->context(), image.cview(), samples.view()), std::invalid_argument);
  adjoint->adjoint(this->context(), samples.cview(), {}, image.view());
  EXPECT_THROW(accumulate->adjoint(this->context(), samples.cview(), {}, image.view()), std::invalid_argument);
  auto grid = this->context().template zeros<cfloat>(this->with_coils(1, accumulate->grid_shape()));
  EXPECT_THROW(accumulate->grid(this->context(), samples.cview(), {}, grid.view()), std::invalid_argument);
  EXPECT_THROW(accumulate->accumulate(this->context(), 1, samples.cview(), {}, 1, grid.view()), std::invalid_argument);
  EXPECT_THROW(accumulate->accumulate(this->context(), -1, samples.cview(), {}, 1, grid.view()), std::invalid_argument);
  accumulate->accumulate(this->context(), 0, samples.cview(), {}, 1, grid.view());
}

// The result has the accuracy that was asked for, without much more work than it needs.
TYPED_TEST(NufftIncrementalTest, AskedAccuracyIsReached) {
  for (const Shape& size : {Shape{61, 72}, Shape{20, 17, 22}})
    for (double accuracy : {3e-2, 1e-3, 1e-4, 1e-5}) {
      const NufftOptions options = options_for_accuracy(accuracy, size);
      const Problem p = make_problem(size, 2, options, testing::fewer(6000, 1500), 581);
      const auto made = this->plan(p, NufftUse::accumulate);
      Array<cfloat> grid = this->empty_grid(p, *made);
      this->accumulate(p, *made, 0, p.count(), 1, grid);
      const auto image = this->images(p, *made, grid);
      const auto truth = testing::direct_adjoint(p.coordinates, p.samples, p.weights, p.coils, p.image);
      // The expectation is a mean over trajectories and data, which one of each meets within some per cent; the
      // problem's points at special places add to it (design: 1.3).
      EXPECT_LT(testing::relative_error(image, truth, image.size()), 1.3 * accuracy)
          << size.text() << " width " << options.kernel_width << " oversampling " << options.oversampling;
    }
  EXPECT_LE(options_for_accuracy(1e-3, {256, 256}).kernel_width, 5);
  EXPECT_THROW(options_for_accuracy(1e-9, {256, 256}), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
