// Pipe & Menon's weights against a float64 iteration on dense kernel sums, and by what they are for.
#include "gadgets/numerics/density/density_pipe_menon.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "gadgets/numerics/density/density.h"
#include "gadgets/numerics/nufft/kaiser_bessel.h"
#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;

struct Reference {
  std::vector<std::vector<double>> iterates;
  std::vector<double> residuals;
};

/// The iteration in float64. The kernel reaches around the grid's edges.
Reference iterate(const std::vector<double>& k, const Shape& image, const Shape& grid, const NufftOptions& options,
                  std::vector<double> w, int iterations) {
  const std::size_t dims = image.rank(), n = k.size() / dims, points = static_cast<std::size_t>(grid.size());
  std::vector<double> c(n * points, 1.0);
  for (std::size_t s = 0; s < n; ++s)
    for (std::size_t m = 0; m < points; ++m) {
      std::size_t rest = m;
      for (std::size_t a = dims; a-- > 0;) {
        const double extent = static_cast<double>(grid[a]);
        const double at = static_cast<double>(rest % static_cast<std::size_t>(grid[a]));
        rest /= static_cast<std::size_t>(grid[a]);
        const KaiserBessel kernel(options.kernel_width, extent / static_cast<double>(image[a]));
        double d = at - k[s * dims + dims - 1 - a] * extent;
        d -= extent * std::round(d / extent);
        c[s * points + m] *= kernel.value(d);
      }
    }
  Reference reference;
  for (int i = 0; i <= iterations; ++i) {
    std::vector<double> on_grid(points, 0.0), d(n, 0.0);
    for (std::size_t s = 0; s < n; ++s)
      for (std::size_t m = 0; m < points; ++m) on_grid[m] += c[s * points + m] * w[s];
    for (std::size_t s = 0; s < n; ++s)
      for (std::size_t m = 0; m < points; ++m) d[s] += c[s * points + m] * on_grid[m];
    double sum = 0, mean = 0, square = 0;
    for (std::size_t s = 0; s < n; ++s) {
      sum += w[s];
      mean += w[s] * d[s];
    }
    mean /= sum;
    for (std::size_t s = 0; s < n; ++s) square += w[s] * std::pow(d[s] - mean, 2);
    reference.residuals.push_back(std::sqrt(square / sum) / mean);
    reference.iterates.push_back(w);
    for (std::size_t s = 0; s < n; ++s) w[s] = w[s] > 0 ? w[s] / d[s] : 0;
  }
  return reference;
}

/// `readouts` diameters of `samples` each.
std::vector<double> radial(int readouts, int samples, double angle) {
  std::vector<double> k;
  for (int r = 0; r < readouts; ++r)
    for (int s = 0; s < samples; ++s) {
      const double radius = static_cast<double>(s - samples / 2) / samples;
      k.push_back(radius * std::cos(angle * r));
      k.push_back(radius * std::sin(angle * r));
    }
  return k;
}

double sum_of(const std::vector<float>& w) { return std::accumulate(w.begin(), w.end(), 0.0); }

template <class B>
class PipeMenonTest : public testing::OnBackend<B> {
 protected:
  std::shared_ptr<const NufftPlan> plan(const std::vector<double>& k, const Shape& image,
                                        const NufftOptions& options = {}) {
    const auto dims = static_cast<std::int64_t>(image.rank());
    return NufftPlan::make(this->context(), {k.data(), {static_cast<std::int64_t>(k.size()) / dims, dims}}, image,
                           options);
  }
  struct Result {
    std::vector<float> weights;
    std::vector<double> residuals;
    std::size_t best;
  };
  Result run(const NufftPlan& made, const std::vector<float>& start, int iterations, double measure) {
    Array<float> from;
    if (!start.empty()) from = this->upload(start, {static_cast<std::int64_t>(start.size())});
    const PipeMenonResult result = pipe_menon_density(
        this->context(), made, start.empty() ? DeviceView<const float>{} : from.cview(), iterations, measure);
    EXPECT_EQ(result.weights.size(), made.samples());
    return {this->download(result.weights), result.residuals, static_cast<std::size_t>(result.best)};
  }
  /// Random samples and starts, some of them zero.
  void expect_as_reference(const Shape& image, const NufftOptions& options, int count, int iterations, unsigned seed) {
    Random random(seed);
    std::vector<double> k;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count) * image.rank(); ++i) {
      const double at = random.uniform(-0.5, 0.5);
      k.push_back(i % 3 == 0 ? at : at * 0.5);
    }
    std::vector<float> start;
    for (int s = 0; s < count; ++s) start.push_back(s % 11 == 4 ? 0.0f : static_cast<float>(random.uniform(0.5, 2)));
    const auto made = plan(k, image, options);
    const auto truth = iterate(k, image, made->grid_shape(), options, {start.begin(), start.end()}, iterations);
    const auto result = run(*made, start, iterations, 0);
    ASSERT_EQ(result.residuals.size(), truth.residuals.size());
    // Sums of some hundred float terms, all positive, in each of a few iterations, which do not amplify errors.
    for (std::size_t i = 0; i < truth.residuals.size(); ++i)
      EXPECT_NEAR(result.residuals[i], truth.residuals[i], 2e-5 * truth.residuals[i] + 2e-6) << i;
    ASSERT_LT(result.best, truth.iterates.size());
    const std::vector<double>& w = truth.iterates[result.best];
    for (std::size_t s = 0; s < w.size(); ++s) EXPECT_NEAR(result.weights[s], w[s], 2e-5 * w[s]) << s;
  }
};
TYPED_TEST_SUITE(PipeMenonTest, Backends, testing::BackendNames);

TYPED_TEST(PipeMenonTest, AsByItsDefinition) {
  this->expect_as_reference({40}, {5, 1.5}, 90, 6, 1);
  this->expect_as_reference({14, 17}, {4, 1.5}, 200, 6, 2);
  this->expect_as_reference({16, 12}, {6, 2}, 300, 12, 3);
  this->expect_as_reference({9, 8, 10}, {3, 1.5}, 150, 5, 4);
}

TYPED_TEST(PipeMenonTest, OneIterationAndNone) {
  Random random(5);
  std::vector<double> k(2 * 60);
  for (double& v : k) v = random.uniform(-0.5, 0.5);
  const auto made = this->plan(k, {16, 16});
  std::vector<float> start(60, 3.0f);
  start[7] = 0;
  const auto none = this->run(*made, start, 0, 2);
  EXPECT_EQ(none.residuals.size(), 1u);
  EXPECT_EQ(none.best, 0u);
  for (std::size_t s = 0; s < 60; ++s) EXPECT_NEAR(none.weights[s], s == 7 ? 0.0 : 2.0 / 59, 1e-7);
  const auto one = this->run(*made, start, 1, 0);
  EXPECT_EQ(one.residuals.size(), 2u);
  EXPECT_EQ(one.best, 1u);
  EXPECT_NEAR(one.residuals[0], none.residuals[0], 1e-12);
  // Weights that are not rescaled are right, too: a sample with no others near has a weight by the kernel alone.
  EXPECT_LT(*std::max_element(one.weights.begin(), one.weights.end()), 1.0f);
}

TYPED_TEST(PipeMenonTest, ResidualsFallAndTheBestIsReturned) {
  const auto k = radial(51, 64, std::numbers::pi / 51);
  const auto result = this->run(*this->plan(k, {32, 32}), {}, 15, std::numbers::pi / 4);
  ASSERT_EQ(result.residuals.size(), 16u);
  for (std::size_t i = 1; i < 16; ++i) EXPECT_LT(result.residuals[i], result.residuals[i - 1]) << i;
  EXPECT_GT(result.residuals[0], 0.5);
  EXPECT_LT(result.residuals[15], 0.03);
  EXPECT_EQ(result.best, 15u);
  EXPECT_NEAR(sum_of(result.weights), std::numbers::pi / 4, 1e-5);
}

// The scale of the start does not matter, a good start saves iterations.
TYPED_TEST(PipeMenonTest, Starts) {
  const auto k = radial(51, 64, std::numbers::pi / 51);
  const auto made = this->plan(k, {32, 32});
  auto ramp = ramp_density({k.data(), {51, 64, 2}}, 0.6);
  const auto from_ramp = this->run(*made, ramp, 4, 1), from_ones = this->run(*made, {}, 4, 1);
  EXPECT_LT(from_ramp.residuals[0], from_ones.residuals[0] / 10);
  EXPECT_LE(from_ramp.residuals[4], from_ones.residuals[4] * 1.01);
  const auto explicit_ones = this->run(*made, std::vector<float>(ramp.size(), 1.0f), 4, 1);
  EXPECT_EQ(explicit_ones.weights, from_ones.weights);
  for (float& w : ramp) w *= 1e6f;
  const auto scaled = this->run(*made, ramp, 4, 1);
  for (std::size_t s = 0; s < ramp.size(); ++s)
    EXPECT_NEAR(scaled.weights[s], from_ramp.weights[s], 1e-5 * static_cast<double>(from_ramp.weights[s]));
}

// Every sample of a lattice is on a grid line, and they all have the same neighbours: no weight is better than another.
TYPED_TEST(PipeMenonTest, LatticeHasEqualWeights) {
  std::vector<double> k;
  for (int y = 0; y < 24; ++y)
    for (int x = 0; x < 20; ++x) {
      k.push_back(x / 20.0 - 0.5);
      k.push_back(y / 24.0 - 0.5);
    }
  Random random(6);
  std::vector<float> start;
  for (int s = 0; s < 480; ++s) start.push_back(static_cast<float>(random.uniform(0.5, 1.5)));
  const auto made = this->plan(k, {24, 20}, {5, 2});
  const auto result = this->run(*made, start, 60, 1);
  EXPECT_LT(result.residuals[result.best], 1e-5);
  for (float w : result.weights) EXPECT_NEAR(w * 480, 1, 1e-4);
  const auto even = this->run(*made, {}, 50, 1);
  EXPECT_LT(even.residuals[0], 2e-6);
  for (float w : even.weights) EXPECT_NEAR(w * 480, 1, 5e-6);
}

// Where samples are dense, C C^T w is w per area times the integral of the kernel by itself: the weights that make it 1
// are areas over that factor.
TYPED_TEST(PipeMenonTest, RadialWeightsAreRampAwayFromCentreAndRim) {
  const auto k = radial(201, 128, std::numbers::pi / 201);  // twice as many samples as the image is wide
  const auto ramp = ramp_density({k.data(), {201, 128, 2}}, 0.6);
  const auto made = this->plan(k, {64, 64});
  const double grid = static_cast<double>(made->grid_shape()[0]);
  const double factor = std::pow(std::pow(KaiserBessel(5, grid / 64).transform(0), 2) / grid, 2);
  const auto result = this->run(*made, {}, 10, 0);
  int compared = 0;
  for (std::size_t s = 0; s < ramp.size(); ++s) {
    const int ring = std::abs(static_cast<int>(s % 128) - 64);
    if (ring < 12 || ring > 52) continue;
    ++compared;
    EXPECT_NEAR(result.weights[s] * factor / ramp[s], 1, 0.01) << s;
  }
  EXPECT_GT(compared, 10000);
}

// The Gaussian exp(-|r|^2 / (2 sigma^2)) from its transform: within the density that the kernel cannot see as uneven.
TYPED_TEST(PipeMenonTest, ReconstructsAGaussian) {
  constexpr double kSigma = 2.5;
  const auto k = radial(89, 64, std::numbers::pi * 0.6180339887498949);
  const auto result = this->run(*this->plan(k, {32, 32}), {}, 20, std::numbers::pi / 4);
  const auto at = [&](const std::vector<float>& w, double x, double y) {
    double value = 0;
    for (std::size_t s = 0; s < w.size(); ++s) {
      const double kx = k[2 * s], ky = k[2 * s + 1];
      const double g = 2 * std::numbers::pi * kSigma * kSigma *
                       std::exp(-2 * std::pow(std::numbers::pi * kSigma, 2) * (kx * kx + ky * ky));
      value += static_cast<double>(w[s]) * g * std::cos(2 * std::numbers::pi * (kx * x + ky * y));
    }
    return value;
  };
  const double scale = at(result.weights, 0, 0);
  EXPECT_NEAR(scale, 1, 0.1);  // the rim's weights exceed its share of the disc, so the rest has less
  const std::vector<float> flat(result.weights.size(),
                                static_cast<float>(std::numbers::pi / 4) / static_cast<float>(k.size() / 2));
  double worst = 0, worst_flat = 0;
  for (int y = -12; y <= 12; y += 3)
    for (int x = -12; x <= 12; x += 3) {
      const double truth = std::exp(-(x * x + y * y) / (2 * kSigma * kSigma));
      worst = std::max(worst, std::abs(at(result.weights, x, y) / scale - truth));
      worst_flat = std::max(worst_flat, std::abs(at(flat, x, y) / at(flat, 0, 0) - truth));
    }
  EXPECT_LT(worst, 0.01);
  EXPECT_GT(worst_flat, 0.1);
}

TYPED_TEST(PipeMenonTest, ZeroStaysZero) {
  auto k = radial(21, 32, std::numbers::pi / 21);
  k[2 * 100] = std::numeric_limits<double>::quiet_NaN();
  std::vector<float> start(k.size() / 2, 1.0f);
  start[5] = 0;
  start[50] = -1;
  start[60] = std::numeric_limits<float>::quiet_NaN();
  start[70] = std::numeric_limits<float>::infinity();
  const auto made = this->plan(k, {16, 16});
  const auto w = this->run(*made, start, 8, 1).weights;
  for (std::size_t s = 0; s < w.size(); ++s) {
    const bool out = s == 5 || s == 50 || s == 60 || s == 70 || s == 100;
    EXPECT_EQ(w[s] > 0, !out) << s;
    EXPECT_TRUE(std::isfinite(w[s]));
  }
  EXPECT_NEAR(sum_of(w), 1, 1e-5);
  for (float v : this->run(*made, std::vector<float>(start.size(), 0.0f), 8, 1).weights) EXPECT_EQ(v, 0.0f);
}

// One sample is flat from the start: no iteration improves it, and the third of these ends the loop. Sums in double are
// not exact: half an ulp of 1 has a root of 1.05e-8.
TYPED_TEST(PipeMenonTest, StopsWhenNothingGetsBetter) {
  const auto made = this->plan({0.1, -0.2}, {16, 16});
  const auto result = this->run(*made, {5.0f}, 50, 2);
  EXPECT_EQ(result.residuals.size(), result.best + 4);
  EXPECT_LE(result.best, 1u);
  for (const double residual : result.residuals) EXPECT_LT(residual, 2.5e-8);
  EXPECT_NEAR(result.weights.at(0), 2, 1e-6);
}

TYPED_TEST(PipeMenonTest, SameBitsInEveryRun) {
  const auto k = radial(51, 64, std::numbers::pi * 0.6180339887498949);
  const auto made = this->plan(k, {32, 32});
  const auto first = this->run(*made, {}, 5, 1), second = this->run(*made, {}, 5, 1);
  EXPECT_EQ(first.weights, second.weights);
  EXPECT_EQ(first.residuals, second.residuals);
}

TYPED_TEST(PipeMenonTest, BadArguments) {
  const auto k = radial(5, 8, 1);
  const auto made = this->plan(k, {8, 8});
  const std::vector<float> start(39, 1.0f);
  EXPECT_THROW(this->run(*made, start, 3, 1), std::invalid_argument);
  EXPECT_THROW(this->run(*made, {}, -1, 1), std::invalid_argument);
  EXPECT_THROW(this->run(*made, {}, 1001, 1), std::invalid_argument);
  EXPECT_TRUE(this->run(*this->plan({}, {8, 8}), {}, 3, 1).residuals.empty());
}

}  // namespace
}  // namespace echotrain::numerics
