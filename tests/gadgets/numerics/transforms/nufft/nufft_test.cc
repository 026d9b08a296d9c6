// The adjoint NUFFT against the float64 direct sum.
#include "gadgets/numerics/transforms/nufft/nufft.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "gadgets/numerics/transforms/nufft/nufft_plan.h"
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

template <class B>
class NufftTest : public testing::OnNufftProblem<B> {
 protected:
  std::vector<cfloat> adjoint(const Problem& p, const NufftPlan& made) {
    auto samples = this->upload(p.samples, {p.count(), p.coils});
    auto weights = this->upload(p.weights, {static_cast<std::int64_t>(p.weights.size())});
    auto image = this->context().template allocate<cfloat>(with_coils(p.coils, p.image));
    made.adjoint(this->context(), samples.cview(), weights.cview(), image.view());
    return this->download(image);
  }
  void expect_right(const Problem& p, double factor = 1) {
    const auto made = this->plan(p);
    const auto image = adjoint(p, *made);
    const auto truth = testing::direct_adjoint(p.coordinates, p.samples, p.weights, p.coils, p.image);
    this->expect_close(image, truth, p, *made, factor);
  }
  /// The same at random voxels, of all coils, because the whole image would take too long.
  void expect_right_at_some(const Problem& p, int voxels) {
    Random random(99);
    std::vector<std::int64_t> chosen;
    for (int i = 0; i < voxels; ++i)
      chosen.push_back(std::min<std::int64_t>(
          static_cast<std::int64_t>(random.uniform(0, 1) * static_cast<double>(p.image.size())), p.image.size() - 1));
    const auto made = this->plan(p);
    const auto image = adjoint(p, *made);
    const auto truth = testing::direct_adjoint(p.coordinates, p.samples, p.weights, p.coils, p.image, chosen);
    std::vector<cfloat> some;
    for (std::int64_t c = 0; c < p.coils; ++c)
      for (auto v : chosen) some.push_back(image[static_cast<std::size_t>(c * p.image.size() + v)]);
    // The error at some thousand values is that of the whole image to a few per cent.
    this->expect_close(some, truth, p, *made);
  }
};
TYPED_TEST_SUITE(NufftTest, Backends, testing::BackendNames);

TYPED_TEST(NufftTest, EveryWidthAndOversampling) {
  unsigned seed = 1;
  for (int width = 2; width <= 8; ++width)
    for (double oversampling : fewer<std::vector<double>>({1.25, 1.5, 1.77, 2.0}, {1.25, 2.0}))
      this->expect_right(make_problem({24, 33}, 2, {width, oversampling}, 700, seed++));
}

TYPED_TEST(NufftTest, OddEvenAndAnisotropicSizes) {
  for (const Problem& p : testing::problems_of_odd_sizes()) this->expect_right(p);
}

TYPED_TEST(NufftTest, EveryNumberOfCoils) {
  for (std::int64_t coils : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 32, 33, 63, 64}) {
    this->expect_right(make_problem({20, 14}, coils, {4, 1.5}, 200, static_cast<unsigned>(200 + coils)));
    this->expect_right(make_problem({7, 9, 8}, coils, {4, 1.5}, 150, static_cast<unsigned>(300 + coils)));
  }
}

TYPED_TEST(NufftTest, PointsOnGridLines) {
  this->with_points_on_lines({{31, 26}, {9, 12, 11}},
                             [&](const Problem& p, double factor) { this->expect_right(p, factor); });
}

TYPED_TEST(NufftTest, LargeOddPlane) {
  this->expect_right_at_some(make_problem({193, 211}, 8, {5, 1.5}, fewer(30000, 3000), 51), 2000);
}

TYPED_TEST(NufftTest, LargeOddVolume) {
  this->expect_right_at_some(make_problem({65, 63, 64}, 2, {5, 1.5}, fewer(30000, 3000), 52), 4096);
}

TYPED_TEST(NufftTest, EveryLengthOfItsOwn) {
  for (const Problem& p : testing::problems_of_own_lengths()) this->expect_right_at_some(p, 300);
}

// Grids of which samples touch a part: CUDA does not read the rest.
TYPED_TEST(NufftTest, SamplesInAPartOfKSpace) {
  unsigned seed = 600;
  for (const Shape& size : {Shape{64, 128}, Shape{64, 64, 64}})
    for (int width : {2, 4, 7})
      for (const double centre : {0.0, 0.31, 0.5})
        this->expect_right_at_some(testing::confined(make_problem(size, 2, {width, 1.5}, 600, seed++), centre, 0.06),
                                   300);
}

// Many samples on few tiles: their lists are cut into pieces whose partial sums are added.
TYPED_TEST(NufftTest, DenseCentre) {
  for (const Shape& size : {Shape{50}, Shape{31, 26}, Shape{9, 12, 11}})
    for (std::int64_t coils : {3, 5, 13}) {
      this->expect_right(make_problem(size, coils, {5, 1.5}, 12000, static_cast<unsigned>(61 + coils)));
    }
}

// On CUDA, positions travel in parts of a turn to the first grid, and as float64 to the second, longer one.
TYPED_TEST(NufftTest, LongAxes) {
  for (const std::int64_t n : {1300, 1500}) this->expect_right(make_problem({n}, 1, {8, 1.5}, 2000, 63));
}

// More than travel in one copy, and the last copy is not full. A part in another's place would change the image by as
// much as itself.
TYPED_TEST(NufftTest, ManySamples) {
  const Problem p = make_problem({12, 10}, 1, {5, 1.5}, (1 << 20) + 70000, 64);
  const std::vector<std::int64_t> voxels = {0, 17, 65, 119};
  const auto image = this->adjoint(p, *this->plan(p));
  const auto truth = testing::direct_adjoint(p.coordinates, p.samples, p.weights, p.coils, p.image, voxels);
  std::vector<cfloat> some;
  for (const auto v : voxels) some.push_back(image[static_cast<std::size_t>(v)]);
  EXPECT_LT(testing::relative_error(some, truth, truth.size()), 2e-3);  // the theory: 3e-4 over all voxels
}

TYPED_TEST(NufftTest, WithoutWeights) {
  Problem p = make_problem({16, 18}, 3, {5, 1.5}, 300, 71);
  p.weights.clear();
  this->expect_right(p);
}

TYPED_TEST(NufftTest, OneSampleAtTheCentreIsFlat) {
  Problem p{{32, 30}, 1, {5, 1.5}, {0, 0}, {cfloat(2, -1)}, {0.5f}};
  const auto made = this->plan(p);
  // The worst voxel is a few times worse than the mean.
  const double worst = 5 * tolerance(p.options, p.image, made->grid_shape());
  for (const cfloat v : this->adjoint(p, *made)) EXPECT_LT(std::abs(v - cfloat(1, -0.5f)), worst);
}

TYPED_TEST(NufftTest, NoSamplesGiveZero) {
  Problem p{{12, 10}, 2, {5, 1.5}, {}, {}, {}};
  for (const cfloat v : this->adjoint(p, *this->plan(p))) EXPECT_EQ(v, cfloat(0, 0));
}

// A sample whose coordinates are not finite takes no part.
TYPED_TEST(NufftTest, CoordinatesThatAreNotFinite) {
  Problem p = make_problem({16, 18}, 2, {5, 1.5}, 100, 81);
  Problem without = p;
  p.coordinates[2 * 10] = std::numeric_limits<double>::quiet_NaN();
  p.coordinates[2 * 20 + 1] = std::numeric_limits<double>::infinity();
  p.coordinates[2 * 30] = 1e300;  // wraps to some place: the test asks only that nothing crashes
  without.coordinates[2 * 30] = 1e300;
  without.weights[10] = without.weights[20] = 0;
  // Other samples may be added in other groups, so the sums agree to fp32's rounding only.
  const auto image = this->adjoint(p, *this->plan(p)), expected = this->adjoint(without, *this->plan(without));
  EXPECT_LT(testing::relative_error(image, expected, expected.size()), 1e-6);
}

TYPED_TEST(NufftTest, SameBitsInEveryRun) {
  Problem p = make_problem({65, 70}, 5, {5, 1.5}, 20000, 91);
  const auto made = this->plan(p);
  const auto first = this->adjoint(p, *made);
  for (int run = 0; run < 3; ++run) {
    const auto again = this->adjoint(p, *this->plan(p));
    ASSERT_EQ(std::memcmp(first.data(), again.data(), first.size() * sizeof(cfloat)), 0);
  }
}

// A coil's image does not depend on which other coils are beside it, beyond rounding.
TYPED_TEST(NufftTest, StepsEqualTheWhole) {
  Problem p = make_problem({21, 26}, 6, {5, 1.5}, 500, 92);
  const auto made = this->plan(p);
  const auto whole = this->adjoint(p, *made);
  auto samples = this->upload(p.samples, {p.count(), p.coils});
  auto weights = this->upload(p.weights, {p.count()});
  auto grid = this->context().template allocate<cfloat>(with_coils(p.coils, made->grid_shape()));
  auto image = this->context().template allocate<cfloat>(with_coils(p.coils, p.image));
  made->grid(this->context(), samples.cview(), weights.cview(), grid.view());
  fft(this->context(), grid.view(), 2, Direction::inverse);
  made->deapodize(this->context(), grid.cview(), image.view());
  const auto steps = this->download(image);
  EXPECT_LT(testing::relative_error(steps, whole, whole.size()), 1e-6);
}

// The convolution itself, against its definition with the window written out.
TYPED_TEST(NufftTest, GridIsTheConvolution) {
  Problem p = make_problem({10, 12}, 2, {4, 1.5}, 60, 93);
  const auto made = this->plan(p);
  const Shape g = made->grid_shape();
  ASSERT_EQ(g, (Shape{16, 18}));  // 15 is odd
  auto samples = this->upload(p.samples, {p.count(), p.coils});
  auto weights = this->upload(p.weights, {p.count()});
  auto grid = this->context().template allocate<cfloat>(with_coils(p.coils, g));
  made->grid(this->context(), samples.cview(), weights.cview(), grid.view());
  const auto got = this->download(grid);
  const auto phi = [&](double u, std::size_t axis) {
    const double ratio = static_cast<double>(g[axis]) / static_cast<double>(p.image[axis]), w = 4;
    const double beta =
        std::numbers::pi * std::sqrt(w * w / (ratio * ratio) * (ratio - 0.5) * (ratio - 0.5) - 0.7 + 0.55 / w);
    const double z = 2 * u / w;
    return std::abs(z) > 1 ? 0.0 : std::cyl_bessel_i(0.0, beta * std::sqrt(1 - z * z)) / std::cyl_bessel_i(0.0, beta);
  };
  const auto distance = [](double a, std::int64_t n) {
    return a - static_cast<double>(n) * std::round(a / static_cast<double>(n));
  };
  std::vector<cdouble> truth(got.size());
  for (std::int64_t s = 0; s < p.count(); ++s)
    for (std::int64_t y = 0; y < g[0]; ++y)
      for (std::int64_t x = 0; x < g[1]; ++x) {
        const auto at = static_cast<std::size_t>(s);
        const double wx =
            phi(distance(static_cast<double>(x) - p.coordinates[2 * at] * static_cast<double>(g[1]), g[1]), 1);
        const double wy =
            phi(distance(static_cast<double>(y) - p.coordinates[2 * at + 1] * static_cast<double>(g[0]), g[0]), 0);
        for (std::int64_t c = 0; c < 2; ++c)
          truth[static_cast<std::size_t>((c * g[0] + y) * g[1] + x)] +=
              wx * wy * static_cast<double>(p.weights[at]) * cdouble(p.samples[2 * at + static_cast<std::size_t>(c)]);
      }
  // Points exactly at the window's edge belong to one side only; with width 4 the window is 1/130 there.
  EXPECT_LT(testing::relative_error(got, truth, got.size()), 5e-3);
}

TYPED_TEST(NufftTest, SmallBudgetTakesCoilsInParts) {
  Problem p = make_problem({64, 64}, 16, {5, 1.5}, 3000, 94);
  const auto whole = this->adjoint(p, *this->plan(p));
  // Samples, images and the plan need about 1.8 MB; the sixteen grids alone would need 1.2 MB more.
  this->context_ =
      std::make_unique<Context>(TypeParam::kBackend, test_resources(), ContextOptions{.memory_budget = 2200000});
  auto made = this->plan(p);
  auto samples = this->upload(p.samples, {p.count(), p.coils});
  auto weights = this->upload(p.weights, {p.count()});
  auto image = this->context().template allocate<cfloat>(with_coils(p.coils, p.image));
  const auto before = this->context().bytes_in_use();
  ASSERT_GT(before + 16 * 96 * 96 * 8, 2200000u);
  made->adjoint(this->context(), samples.cview(), weights.cview(), image.view());
  EXPECT_EQ(this->context().bytes_in_use(), before);
  std::vector<cfloat> parts(whole.size());
  this->context().template copy<cfloat>(image.cview(), HostView<cfloat>(parts.data(), image.shape()));
  this->context().synchronize();
  EXPECT_LT(testing::relative_error(parts, whole, whole.size()), 1e-6);
  image = {}, samples = {}, weights = {}, made = {};
  EXPECT_EQ(this->context().bytes_in_use(), 0u);
}

TYPED_TEST(NufftTest, PlanSaysWhatItHolds) {
  Problem p = make_problem({31, 26}, 1, {5, 1.5}, 800, 95);
  const auto before = this->context().bytes_in_use();
  const auto made = this->plan(p);
  EXPECT_EQ(made->image_shape(), p.image);
  EXPECT_EQ(made->grid_shape(), (Shape{48, 40}));
  EXPECT_EQ(made->samples(), 800);
  EXPECT_EQ(made->backend(), TypeParam::kBackend);
  EXPECT_EQ(made->bytes(), this->context().bytes_in_use() - before);
  EXPECT_GT(made->bytes(), 800u * 2 * 5 * 4);
}

// A plan is shared between sessions and may outlive the one that made it.
TYPED_TEST(NufftTest, PlanOutlivesItsContext) {
  Problem p = make_problem({31, 26}, 2, {5, 1.5}, 800, 96);
  auto made = this->plan(p);
  this->context_ = std::make_unique<Context>(TypeParam::kBackend, test_resources());
  const auto image = this->adjoint(p, *made);
  made = {};
  const auto truth = testing::direct_adjoint(p.coordinates, p.samples, p.weights, p.coils, p.image);
  EXPECT_LT(testing::relative_error(image, truth, image.size()), 1e-3);
}

// Less exact sums, and those of one coil, whose kernels differ from those of several. CPUs make no use of slack.
TYPED_TEST(NufftTest, AddsNoMoreThanItsSlack) {
  struct Case {
    Shape size;
    NufftOptions options;
    double slack;
    Sums sums;
  };
  const Case cases[] = {{{40, 37}, {4, 1.5}, 1e-3, Sums::coarse},     {{40, 37}, {6, 1.75}, 2e-5, Sums::fine},
                        {{12, 16, 13}, {4, 1.5}, 2e-3, Sums::coarse}, {{12, 16, 13}, {5, 1.25}, 1e-4, Sums::fine},
                        {{12, 16, 13}, {7, 1.5}, 2e-6, Sums::full},   {{12, 16, 13}, {8, 2}, 1e-3, Sums::stretches}};
  for (const Case& c : cases)
    for (const std::int64_t coils : {1, 6, 9}) {
      Problem p = make_problem(c.size, coils, c.options, 400, static_cast<unsigned>(400 + coils));
      p.options.use = NufftUse::adjoint;
      const auto full = this->adjoint(p, *this->plan(p));
      p.options.slack = c.slack;
      EXPECT_EQ(sums_within_slack(p.options, c.size), c.sums);
      const auto quick = this->adjoint(p, *this->plan(p));
      const double difference = testing::relative_error(quick, full, full.size());
      EXPECT_LT(difference, c.slack) << c.size.text() << " x " << coils;
      const bool differs = TypeParam::kBackend == Backend::cuda && c.sums <= Sums::fine;
      EXPECT_EQ(difference > 3e-7, differs) << c.size.text() << " x " << coils;
      const auto truth = testing::direct_adjoint(p.coordinates, p.samples, p.weights, p.coils, p.image);
      this->expect_close(quick, truth, p, *this->plan(p), 1 + c.slack / expected_error(p.options, c.size));
    }
}

TYPED_TEST(NufftTest, BadArguments) {
  const std::vector<double> k(8, 0.1);
  const HostView<const double> coordinates(k.data(), {4, 2});
  const auto make = [&](const Shape& image, const NufftOptions& options) {
    return NufftPlan::make(this->context(), coordinates, image, options);
  };
  EXPECT_THROW(make({8, 8}, {1, 1.5}), std::invalid_argument);
  EXPECT_THROW(make({8, 8}, {9, 1.5}), std::invalid_argument);
  EXPECT_THROW(make({8, 8}, {5, 1.2}), std::invalid_argument);
  EXPECT_THROW(make({8, 8}, {5, 2.1}), std::invalid_argument);
  EXPECT_THROW(make({8, 8}, {5, std::numeric_limits<double>::quiet_NaN()}), std::invalid_argument);
  for (const double slack : {-1e-3, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    EXPECT_THROW(make({8, 8}, {.use = NufftUse::adjoint, .slack = slack}), std::invalid_argument);
  EXPECT_THROW(make({8, 0}, {5, 1.5}), std::invalid_argument);
  EXPECT_THROW(make({8, 8, 8}, {5, 1.5}), std::invalid_argument);
  EXPECT_THROW(make({1 << 20, 1 << 20}, {5, 1.5}), std::invalid_argument);
  const auto made = make({8, 8}, {5, 1.5});
  auto samples = this->context().template zeros<cfloat>({4, 2});
  auto weights = this->context().template zeros<float>({3});
  auto image = this->context().template zeros<cfloat>({2, 8, 8});
  auto three = this->context().template zeros<cfloat>({3, 8, 8});
  EXPECT_THROW(made->adjoint(this->context(), samples.cview(), weights.cview(), image.view()), std::invalid_argument);
  EXPECT_THROW(made->adjoint(this->context(), samples.cview(), {}, three.view()), std::invalid_argument);
  made->adjoint(this->context(), samples.cview(), {}, image.view());
}

std::vector<std::uint32_t> turns_of(const std::vector<double>& coordinates, int dims) {
  std::vector<std::uint32_t> turns(coordinates.size());
  to_turns(coordinates.data(), static_cast<std::int64_t>(coordinates.size()) / dims, dims, turns.data());
  return turns;
}

TEST(NufftTurns, AreTheNearestParts) {
  Random random(97);
  std::vector<double> k = {0, -0.5, 0.5, 0.25, -0.25, 1, -1, 1e-300, -1e-300, 0.75 - 0x1p-20, 3.125, -7.375, 524287.5};
  while (k.size() < 6000) k.push_back(random.uniform(-0.5, 0.5));
  const auto turns = turns_of(k, 1);
  for (std::size_t i = 0; i < k.size(); ++i) {
    // Both are exact in float64; the difference is taken around the circle.
    const double parts = std::ldexp(k[i] - std::floor(k[i]), 32) - static_cast<double>(turns[i]);
    EXPECT_LE(std::abs(std::remainder(parts, 0x1p32)), 0.5) << k[i];
  }
  EXPECT_EQ(turns_of({-0x1p-32}, 1)[0], kNoTurns - 1);  // whose own part says "nowhere"
  // Wherever they go, and no others.
  for (const std::int64_t count : {1, 2, 7, 3001})
    for (const std::size_t offset : {1u, 2u, 3u, 5u}) {
      std::vector<std::uint32_t> to(offset + k.size(), 12345);
      to_turns(k.data(), count, 1, to.data() + offset);
      EXPECT_TRUE(std::equal(turns.begin(), turns.begin() + count, to.begin() + static_cast<std::ptrdiff_t>(offset)));
      EXPECT_EQ(to[offset - 1], 12345u);
      EXPECT_EQ(to[offset + static_cast<std::size_t>(count)], 12345u);
    }
}

// Coordinates that are large or not finite are rare and take another way: their neighbours must not notice.
TEST(NufftTurns, OthersAreTheSameBesideOddOnes) {
  Random random(98);
  std::vector<double> k;
  while (k.size() < 6000) k.push_back(random.uniform(-2, 2));
  const auto before = turns_of(k, 3);
  k[3 * 100 + 1] = std::numeric_limits<double>::quiet_NaN();
  k[3 * 700] = -std::numeric_limits<double>::infinity();
  k[3 * 1900 + 2] = 0x1p40 + 0.25;
  k[3 * 1901] = -1e300;
  const auto after = turns_of(k, 3);
  for (std::size_t i = 0; i < k.size(); ++i) {
    const std::size_t sample = i / 3;
    if (sample == 100 || sample == 700)
      EXPECT_EQ(after[i], kNoTurns) << i;
    else if (i == 3 * 1900 + 2)
      EXPECT_EQ(after[i], 1u << 30);
    else if (i == 3 * 1901)
      EXPECT_EQ(after[i], 0u);
    else
      EXPECT_EQ(after[i], before[i]) << i;
  }
}

TEST(NufftDigest, SeesEveryBitAndTheOrder) {
  std::vector<double> k{0.1, 0.2, 0.3, 0.4};
  const auto digest = [&](const Shape& shape) { return trajectory_digest({k.data(), shape}); };
  const auto first = digest({2, 2});
  EXPECT_EQ(first, digest({2, 2}));
  EXPECT_NE(first, digest({4, 1}));
  EXPECT_NE(first, digest({1, 2}));
  std::swap(k[0], k[1]);
  EXPECT_NE(first, digest({2, 2}));
  std::swap(k[0], k[1]);
  k[3] = std::nextafter(k[3], 1.0);
  EXPECT_NE(first, digest({2, 2}));
}

// The sum over aliases, where expected_error() averages footprints over positions: two ways to one number (Parseval).
TEST(NufftExpectedError, IsTheSumOfAllAliases) {
  for (int width = 2; width <= 8; ++width)
    for (const double oversampling : {1.25, 1.5, 2.0})
      for (const Shape& image : {Shape{301}, Shape{96, 40}, Shape{40, 24, 32}}) {
        Shape grid;
        for (const auto n : image)
          grid.push_back(fast_even_size(static_cast<std::int64_t>(std::ceil(oversampling * static_cast<double>(n)))));
        const double theory = testing::alias_error({width, oversampling}, image, grid);
        EXPECT_NEAR(expected_error({width, oversampling}, image), theory, 0.01 * theory)
            << width << ' ' << image.text();
      }
}

// Axes are independent, so their order does not matter: not to the last bits, in which products differ.
TEST(NufftExpectedError, IsTheSameForAxesInAnyOrder) {
  const double error = expected_error({4, 1.5}, {64, 30, 64});
  EXPECT_NE(error, expected_error({4, 1.5}, {64, 64, 64}));
  for (const Shape& image : {Shape{64, 64, 30}, Shape{30, 64, 64}})
    EXPECT_NEAR(expected_error({4, 1.5}, image), error, 1e-9 * error) << image.text();
}

// The errors are those that the tables of docs/performance.md ask for. Bounds are the theory (1.898e-3, 2.326e-3,
// 1.417e-5), rounded up; the last one is of 4.65e-5.
TEST(NufftExpectedError, MeetsWhatIsAskedOf) {
  EXPECT_LT(expected_error({4, 1.5}, {384, 384}), 1.9e-3);
  EXPECT_LT(expected_error({4, 1.5}, {256, 256, 256}), 2.33e-3);
  EXPECT_LT(expected_error({6, 1.75}, {384, 384}), 1.42e-5);
  EXPECT_GT(expected_error({6, 1.5}, {384, 384}), 3e-5);  // which is why that row takes 1.75
}

TEST(NufftThreads, SameBitsForAnyNumberOfThreads) {
  testing::expect_same_bits(2, [](Context& context, const testing::NoteBits& note) {
    for (const Shape& size : {Shape{65, 70}, Shape{40, 33, 36}}) {
      const Problem p = make_problem(size, 5, {5, 1.5}, 20000, 91);
      const auto plan = NufftPlan::make(
          context, {p.coordinates.data(), {p.count(), static_cast<std::int64_t>(size.rank())}}, size, p.options);
      Shape shape{5};
      for (auto e : size) shape.push_back(e);
      auto image = context.allocate<cfloat>(shape);
      const auto samples = context.upload<cfloat>({p.samples.data(), {p.count(), 5}});
      const auto weights = context.upload<float>({p.weights.data(), {p.count()}});
      plan->adjoint(context, samples.view(), weights.view(), image.view());
      note(image.data(), image.size(), size.text());
    }
  });
}

}  // namespace
}  // namespace echotrain::numerics
