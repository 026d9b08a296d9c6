// Pipe & Menon's weights against a float64 iteration on dense kernel sums, and by what they are for.
#include "gadgets/numerics/mri/density/density_pipe_menon.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "gadgets/numerics/mri/density/density.h"
#include "gadgets/numerics/transforms/nufft/kaiser_bessel.h"
#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;

struct Reference {
  std::vector<std::vector<double>> iterates;  // as areas
  std::vector<double> residuals;
};

/// The integral over k-space of the window convolved with itself, by the midpoint rule.
double kernel_integral(const Shape& image, const Shape& grid, int width) {
  constexpr int kSteps = 2000;  // of a cell
  double product = 1;
  for (std::size_t a = 0; a < image.rank(); ++a) {
    const double extent = static_cast<double>(grid[a]);
    const KaiserBessel kernel(width, extent / static_cast<double>(image[a]));
    double sum = 0;
    for (int i = 0; i < width * kSteps; ++i) sum += kernel.value((i + 0.5) / kSteps - width / 2.0);
    product *= std::pow(sum / kSteps, 2) / extent;
  }
  return product;
}

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
  const double integral = kernel_integral(image, grid, options.kernel_width);
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
    for (double& v : reference.iterates.back()) v *= integral / mean;
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

/// Arms outwards, `turns` round each; the pitch grows with the radius.
std::vector<double> widening_spiral(int arms, int samples, double turns) {
  std::vector<double> k;
  for (int arm = 0; arm < arms; ++arm)
    for (int s = 0; s < samples; ++s) {
      const double t = (s + 0.5) / samples;
      const double angle = 2 * std::numbers::pi * (turns * std::pow(t, 2.0 / 3) + static_cast<double>(arm) / arms);
      k.push_back(0.5 * t * std::cos(angle));
      k.push_back(0.5 * t * std::sin(angle));
    }
  return k;
}

/// Diameters of a ball by two golden means (Chan et al., MRM 61, 2009).
std::vector<double> koosh_ball(int readouts, int samples) {
  std::vector<double> k;
  for (int r = 0; r < readouts; ++r) {
    const double z = 2 * std::fmod(0.4656 * r, 1) - 1, angle = 2 * std::numbers::pi * std::fmod(0.6823 * r, 1);
    for (int s = 0; s < samples; ++s) {
      const double radius = static_cast<double>(s - samples / 2) / samples;
      k.push_back(radius * std::sqrt(1 - z * z) * std::cos(angle));
      k.push_back(radius * std::sqrt(1 - z * z) * std::sin(angle));
      k.push_back(radius * z);
    }
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
  Result run(const NufftPlan& made, const std::vector<float>& start, int iterations) {
    Array<float> from;
    if (!start.empty()) from = this->upload(start, {static_cast<std::int64_t>(start.size())});
    const PipeMenonResult result =
        pipe_menon_density(this->context(), made, start.empty() ? DeviceView<const float>{} : from.cview(), iterations);
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
    const auto result = run(*made, start, iterations);
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
  const auto none = this->run(*made, start, 0);
  EXPECT_EQ(none.residuals.size(), 1u);
  EXPECT_EQ(none.best, 0u);
  for (std::size_t s = 0; s < 60; ++s) EXPECT_EQ(none.weights[s], s == 7 ? 0.0f : none.weights[0]);
  EXPECT_GT(none.weights[0], 0.0f);
  const auto one = this->run(*made, start, 1);
  EXPECT_EQ(one.residuals.size(), 2u);
  EXPECT_EQ(one.best, 1u);
  EXPECT_NEAR(one.residuals[0], none.residuals[0], 1e-12);
}

TYPED_TEST(PipeMenonTest, ResidualsFallAndTheBestIsReturned) {
  const auto k = radial(51, 64, std::numbers::pi / 51);
  const auto result = this->run(*this->plan(k, {32, 32}), {}, 15);
  ASSERT_EQ(result.residuals.size(), 16u);
  for (std::size_t i = 1; i < 16; ++i) EXPECT_LT(result.residuals[i], result.residuals[i - 1]) << i;
  EXPECT_GT(result.residuals[0], 0.5);
  EXPECT_LT(result.residuals[15], 0.03);
  EXPECT_EQ(result.best, 15u);
  // No gaps: the disc, and what the outermost samples see beyond it, some half a cell of the grid (48 wide) all around.
  EXPECT_GT(sum_of(result.weights), std::numbers::pi / 4);
  EXPECT_LT(sum_of(result.weights), std::numbers::pi * std::pow(0.5 + 1.0 / 48, 2));
}

// The scale of the start does not matter, a good start saves iterations.
TYPED_TEST(PipeMenonTest, Starts) {
  const auto k = radial(51, 64, std::numbers::pi / 51);
  const auto made = this->plan(k, {32, 32});
  auto ramp = ramp_density({k.data(), {51, 64, 2}}, 0.6);
  const auto from_ramp = this->run(*made, ramp, 4), from_ones = this->run(*made, {}, 4);
  EXPECT_LT(from_ramp.residuals[0], from_ones.residuals[0] / 10);
  EXPECT_LE(from_ramp.residuals[4], from_ones.residuals[4] * 1.01);
  const auto explicit_ones = this->run(*made, std::vector<float>(ramp.size(), 1.0f), 4);
  EXPECT_EQ(explicit_ones.weights, from_ones.weights);
  for (float& w : ramp) w *= 1e6f;
  const auto scaled = this->run(*made, ramp, 4);
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
  const auto result = this->run(*made, start, 60);
  EXPECT_LT(result.residuals[result.best], 1e-5);
  // The lattice is every second grid point. The grid has the window's even points' sum there and the odd ones' between,
  // each of which comes back with the same factor. Their squares' sum is 3 % more than the kernel's integral, to which
  // both would be equal if samples lay closer than the kernel's transform tells apart.
  const KaiserBessel window(5, 2);
  const double even_points = window.value(0) + 2 * window.value(2), odd_points = 2 * window.value(1);
  const double of_axis = 2 * (even_points * even_points + odd_points * odd_points) / std::pow(window.transform(0), 2);
  const double seen = of_axis * of_axis;
  for (float w : result.weights) EXPECT_NEAR(w * 480 * seen, 1, 1e-4);
  const auto even = this->run(*made, {}, 50);
  EXPECT_LT(even.residuals[0], 2e-6);
  for (float w : even.weights) EXPECT_NEAR(w * 480 * seen, 1, 5e-6);
}

// Where samples are dense, weights are areas.
TYPED_TEST(PipeMenonTest, RadialWeightsAreRampAwayFromCentreAndRim) {
  const auto k = radial(201, 128, std::numbers::pi / 201);  // twice as many samples as the image is wide
  const auto ramp = ramp_density({k.data(), {201, 128, 2}}, 0.6);
  const auto made = this->plan(k, {64, 64});
  const auto result = this->run(*made, {}, 10);
  int compared = 0;
  for (std::size_t s = 0; s < ramp.size(); ++s) {
    const int ring = std::abs(static_cast<int>(s % 128) - 64);
    if (ring < 12 || ring > 52) continue;
    ++compared;
    EXPECT_NEAR(result.weights[s] / ramp[s], 1, 0.01) << s;
  }
  EXPECT_GT(compared, 10000);
}

// A disc (ball) of amplitude 1 has that amplitude, however far apart spokes and arms are in the outer k-space. A mean
// of d over the object's own k-space differs from that over all of it by no more than d does: the residual. Sums are
// taken in float64.
TYPED_TEST(PipeMenonTest, ObjectsHaveTheirAmplitudeWhateverTheGaps) {
  constexpr double kPi = std::numbers::pi;
  struct Case {
    const char* name;
    std::vector<double> k;
    Shape image;
    double measured;  // the weights' sum over the disc or ball that the samples reach
  };
  // Gaps leave less than the disc; the rim adds up to 4 % of it, of a small ball's 10 %.
  const std::vector<Case> cases = {{"all spokes", radial(76, 96, kPi / 76), {48, 48}, 1.037},
                                   {"every second", radial(36, 96, kPi / 36), {48, 48}, 0.989},
                                   {"every fifth", radial(16, 96, kPi / 16), {48, 48}, 0.623},
                                   {"golden angles", radial(21, 96, kPi * 0.6180339887498949), {48, 48}, 0.741},
                                   {"spiral", widening_spiral(6, 800, 4), {48, 48}, 1.008},
                                   {"spiral with gaps", widening_spiral(3, 800, 4), {48, 48}, 0.703},
                                   {"ball", koosh_ball(300, 48), {24, 24, 24}, 0.953},
                                   {"ball with gaps", koosh_ball(100, 48), {24, 24, 24}, 0.566}};
  for (const auto& [name, k, image, measured] : cases) {
    const auto result = this->run(*this->plan(k, image), {}, 10);
    const std::size_t dims = image.rank(), count = result.weights.size();
    const double n = static_cast<double>(image[0]), radius = 0.3 * n;
    std::vector<double> weighted(count);
    double reach = 0;
    for (std::size_t s = 0; s < count; ++s) {
      double q = 0;
      for (std::size_t a = 0; a < dims; ++a) q += k[dims * s + a] * k[dims * s + a];
      q = std::max(std::sqrt(q), 1e-6);
      reach = std::max(reach, q);
      const double x = 2 * kPi * q * radius;
      weighted[s] = static_cast<double>(result.weights[s]) *
                    (dims == 2 ? radius * std::cyl_bessel_j(1.0, x) / q
                               : (std::sin(x) - x * std::cos(x)) / (2 * kPi * kPi * q * q * q));
    }
    double mean = 0;  // within the object, away from its edge, whose ringing it averages
    constexpr int kPoints = 100;
    Random random(8);
    for (int i = 0; i < kPoints; ++i) {
      std::array<double, 3> r{};
      do {
        for (std::size_t a = 0; a < dims; ++a) r[a] = random.uniform(-0.6, 0.6) * radius;
      } while (std::hypot(r[0], r[1], r[2]) > 0.6 * radius);
      for (std::size_t s = 0; s < count; ++s) {
        double turns = 0;
        for (std::size_t a = 0; a < dims; ++a) turns += k[dims * s + a] * r[a];
        mean += weighted[s] * std::cos(2 * kPi * turns) / kPoints;
      }
    }
    const double residual = result.residuals[result.best];
    EXPECT_LT(residual, 0.021) << name;
    EXPECT_NEAR(mean, 1, residual + 0.002) << name;  // 100 points' mean of the rings
    const double ball = dims == 2 ? kPi * reach * reach : 4 * kPi / 3 * std::pow(reach, 3);
    EXPECT_NEAR(sum_of(result.weights) / ball, measured, 0.01) << name;
  }
}

// The Gaussian exp(-|r|^2 / (2 sigma^2)) from its transform: within the density that the kernel cannot see as uneven.
TYPED_TEST(PipeMenonTest, ReconstructsAGaussian) {
  constexpr double kSigma = 2.5;
  const auto k = radial(89, 64, std::numbers::pi * 0.6180339887498949);
  const auto result = this->run(*this->plan(k, {32, 32}), {}, 20);
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
  const std::vector<float> flat(result.weights.size(),
                                static_cast<float>(std::numbers::pi / 4) / static_cast<float>(k.size() / 2));
  double worst = 0, worst_flat = 0;
  for (int y = -12; y <= 12; y += 3)
    for (int x = -12; x <= 12; x += 3) {
      const double truth = std::exp(-(x * x + y * y) / (2 * kSigma * kSigma));
      worst = std::max(worst, std::abs(at(result.weights, x, y) - truth));
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
  const auto w = this->run(*made, start, 8).weights;
  for (std::size_t s = 0; s < w.size(); ++s) {
    const bool out = s == 5 || s == 50 || s == 60 || s == 70 || s == 100;
    EXPECT_EQ(w[s] > 0, !out) << s;
    EXPECT_TRUE(std::isfinite(w[s]));
  }
  for (float v : this->run(*made, std::vector<float>(start.size(), 0.0f), 8).weights) EXPECT_EQ(v, 0.0f);
}

// One sample is flat from the start: no iteration improves it, and the third of these ends the loop. Sums in double are
// not exact: half an ulp of 1 has a root of 1.05e-8.
TYPED_TEST(PipeMenonTest, StopsWhenNothingGetsBetter) {
  const auto made = this->plan({0.1, -0.2}, {16, 16});
  const auto result = this->run(*made, {5.0f}, 50);
  EXPECT_EQ(result.residuals.size(), result.best + 4);
  EXPECT_LE(result.best, 1u);
  for (const double residual : result.residuals) EXPECT_LT(residual, 2.5e-8);
  EXPECT_GT(result.weights.at(0), 0.0f);
}

TYPED_TEST(PipeMenonTest, SameBitsInEveryRun) {
  const auto k = radial(51, 64, std::numbers::pi * 0.6180339887498949);
  const auto made = this->plan(k, {32, 32});
  const auto first = this->run(*made, {}, 5), second = this->run(*made, {}, 5);
  EXPECT_EQ(first.weights, second.weights);
  EXPECT_EQ(first.residuals, second.residuals);
}

TYPED_TEST(PipeMenonTest, BadArguments) {
  const auto k = radial(5, 8, 1);
  const auto made = this->plan(k, {8, 8});
  const std::vector<float> start(39, 1.0f);
  EXPECT_THROW(this->run(*made, start, 3), std::invalid_argument);
  EXPECT_THROW(this->run(*made, {}, -1), std::invalid_argument);
  EXPECT_THROW(this->run(*made, {}, 1001), std::invalid_argument);
  EXPECT_TRUE(this->run(*this->plan({}, {8, 8}), {}, 3).residuals.empty());
}

}  // namespace
}  // namespace echotrain::numerics
