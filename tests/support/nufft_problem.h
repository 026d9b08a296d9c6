// A NUFFT problem has samples and images, and says how wrong an answer may be.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <vector>

#include "gadgets/numerics/transforms/nufft/kaiser_bessel.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::testing {

using numerics::cfloat;
using numerics::NufftOptions;
using numerics::Shape;

/// The window's transform over its value at beta = 0: sinh(a) / a, a^2 = beta^2 - (pi width f)^2.
inline double kaiser_bessel_transform(double f, int width, double beta) {
  const double x = std::numbers::pi * width * f, square = beta * beta - x * x;
  if (std::abs(square) < 1e-9) return 1;
  return square > 0 ? std::sinh(std::sqrt(square)) / std::sqrt(square)
                    : std::sin(std::sqrt(-square)) / std::sqrt(-square);
}

/// The mean over all n voxels of an axis, on a grid of g points, of the power of a voxel's aliases over its own:
/// sum_{j != 0} Phi(f + j)^2 / Phi(f)^2, f = r / g. Theory for white data: Fessler & Sutton, IEEE TSP 51(2), 2003.
inline double alias_power(int width, double beta, std::int64_t n, std::int64_t g) {
  constexpr int kAliases = 24;  // on either side; of those beyond, whose powers fall as 1 / j^2, the mean
  const double beyond = 1 / std::pow(std::numbers::pi * width, 2) / (kAliases + 0.5);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double f = static_cast<double>(i - n / 2) / static_cast<double>(g),
                 own = kaiser_bessel_transform(f, width, beta);
    double aliases = beyond;
    for (int j = 1; j <= kAliases; ++j)
      for (const double at : {f - j, f + j}) {
        const double phi = kaiser_bessel_transform(at, width, beta);
        aliases += phi * phi;
      }
    sum += aliases / (own * own);
  }
  return sum / static_cast<double>(n);
}

/// The relative RMS error of gridding over all voxels by that theory. Axes are independent: their (1 + power) multiply.
inline double alias_error(const NufftOptions& options, const Shape& image, const Shape& grid) {
  double product = 1;
  for (std::size_t a = 0; a < image.rank(); ++a) {
    const double ratio = static_cast<double>(grid[a]) / static_cast<double>(image[a]);
    const double beta = numerics::KaiserBessel(options.kernel_width, ratio).beta();
    product *= 1 + alias_power(options.kernel_width, beta, image[a], grid[a]);
  }
  return std::sqrt(product - 1);
}

/// Returns the factor by which the division by the kernel's transform Phi amplifies rounding: per axis sqrt(mean Phi^2
/// mean Phi^-2).
inline double amplification(const NufftOptions& options, const Shape& image, const Shape& grid) {
  double product = 1;
  for (std::size_t a = 0; a < image.rank(); ++a) {
    const double n = static_cast<double>(image[a]), g = static_cast<double>(grid[a]);
    const double beta = numerics::KaiserBessel(options.kernel_width, g / n).beta();
    double squares = 0, inverse_squares = 0;
    for (std::int64_t i = 0; i < image[a]; ++i) {
      const double phi = kaiser_bessel_transform(static_cast<double>(i - image[a] / 2) / g, options.kernel_width, beta);
      squares += phi * phi;
      inverse_squares += 1 / (phi * phi);
    }
    product *= std::sqrt(squares * inverse_squares) / n;
  }
  return product;
}

/// The error that the transform may have over all voxels: 1.3 times the aliasing of its kernel, and rounding. The
/// theory is a mean over data and positions; 1.3 is for problems of some hundred values.
inline double tolerance(const NufftOptions& options, const Shape& image, const Shape& grid) {
  return 1.3 * alias_error(options, image, grid) + 1e-6 * amplification(options, image, grid);
}

struct Problem {
  Shape image;
  std::int64_t coils;
  NufftOptions options;
  std::vector<double> coordinates;
  std::vector<cfloat> samples;
  std::vector<float> weights;
  std::int64_t count() const { return static_cast<std::int64_t>(coordinates.size() / image.rank()); }
};

/// Points anywhere, half of them close to the centre, and all the special places: on grid lines of the oversampled
/// grid, at both edges of k-space, beyond them, several at one place, and no point at all in a corner.
inline Problem make_problem(const Shape& image, std::int64_t coils, const NufftOptions& options, std::int64_t count,
                            unsigned seed, const Shape& grid = {}) {
  Random random(seed);
  Problem p{image, coils, options, {}, {}, {}};
  const std::size_t dims = image.rank();
  for (std::int64_t s = 0; s < count; ++s)
    for (std::size_t d = 0; d < dims; ++d) {
      const double k = random.uniform(-0.5, 0.5);
      // The theory is a mean over positions between grid points, and a small grid has few of these near its centre.
      double value = s % 2 == 0 || image[dims - 1 - d] < 16 ? k : k * 0.1;
      if (value > 0.4) value -= 0.5;  // leaves an empty region
      if (s % 64 == 1) value = k < 0 ? -0.5 : 0.5;
      if (s % 64 == 3 && grid.rank() == dims) {
        const double extent = static_cast<double>(grid[dims - 1 - d]);
        value = std::floor(k * extent) / extent;
      }
      if (s % 64 == 5) value = k + 3;
      if (s % 64 == 7) value = 0;
      p.coordinates.push_back(value);
    }
  p.samples = random.normals(count * coils);
  for (std::int64_t s = 0; s < count; ++s) p.weights.push_back(static_cast<float>(random.uniform(0.5, 1.5)));
  return p;
}

/// The same with all points within `extent` of `centre` along each axis, around the end of k-space too.
inline Problem confined(Problem p, double centre, double extent) {
  for (double& k : p.coordinates) k = centre + 2 * extent * (k - std::floor(k) - 0.5);
  return p;
}

/// The same with every point on a line of `grid`.
inline Problem make_problem_on_lines(const Shape& image, std::int64_t coils, const NufftOptions& options,
                                     std::int64_t count, unsigned seed, const Shape& grid) {
  Problem p = make_problem(image, coils, options, count, seed);
  for (std::size_t i = 0; i < p.coordinates.size(); ++i) {
    const double extent = static_cast<double>(grid[image.rank() - 1 - i % image.rank()]);
    p.coordinates[i] = std::floor(p.coordinates[i] * extent) / extent;
  }
  return p;
}

/// Problems of small sizes: odd, even, one long and one short axis, single points.
inline std::vector<Problem> problems_of_odd_sizes() {
  const Shape sizes[] = {{1},      {2},      {17},    {64},      {301},     {1, 1},       {5, 3},      {40, 1},
                         {23, 32}, {32, 23}, {7, 60}, {1, 1, 1}, {3, 4, 5}, {12, 11, 10}, {2, 19, 16}, {17, 6, 9}};
  std::vector<Problem> problems;
  unsigned seed = 100;
  for (const Shape& size : sizes)
    for (int width : {3, 6, 8}) {
      // The expected error is a mean: it takes some hundred values to be met within 1.3.
      const std::int64_t coils = std::max<std::int64_t>(1, 400 / size.size());
      problems.push_back(make_problem(size, coils, {width, 1.5}, 1000, seed++));
    }
  return problems;
}

/// Problems on grids whose extents have transforms of their own on CUDA, along rows and columns, and on some with an
/// axis that has none (90, 100 and 216 points).
inline std::vector<Problem> problems_of_own_lengths() {
  std::vector<Problem> problems;
  unsigned seed = 500;
  const auto add = [&](const Shape& size, std::int64_t coils, const NufftOptions& options) {
    problems.push_back(make_problem(size, coils, options, 700, seed++));
  };
  const std::int64_t halves[][2] = {{40, 48},   {64, 72},   {80, 96},   {120, 128}, {144, 160}, {192, 224},
                                    {240, 256}, {288, 320}, {336, 384}, {56, 84},   {112, 168}, {448, 56}};
  for (const auto& [one, other] : halves) {
    add({one, other}, 1, {5, 2});
    add({other, one}, 1, {5, 2});
  }
  add({447, 53}, 3, {5, 1.5});  // an odd extent
  add({128, 60}, 3, {5, 1.5});
  add({144, 192}, 9, {5, 1.5});
  add({64, 53, 64}, 2, {5, 1.5});
  add({64, 62, 61}, 1, {5, 1.25});
  add({64, 66, 53}, 1, {5, 1.5});
  add({64, 96, 64}, 1, {8, 1.75});
  return problems;
}

inline Shape with_coils(std::int64_t coils, const Shape& item) {
  Shape shape{coils};
  for (auto e : item) shape.push_back(e);
  return shape;
}

/// Makes plans for problems and says whether their answers are right.
template <class B>
class OnNufftProblem : public OnBackend<B> {
 protected:
  std::shared_ptr<const numerics::NufftPlan> plan(const Problem& p) {
    return numerics::NufftPlan::make(this->context(),
                                     {p.coordinates.data(), {p.count(), static_cast<std::int64_t>(p.image.rank())}},
                                     p.image, p.options);
  }
  /// Calls `expect` with problems of these sizes, some or all of whose points lie on lines of the grid, and with the
  /// factor by which their errors may exceed the tolerance.
  template <class Expect>
  void with_points_on_lines(const std::vector<Shape>& sizes, const Expect& expect) {
    for (const Shape& size : sizes)
      for (int width : {4, 5}) {
        const NufftOptions options{width, 1.5};
        const Shape grid = plan(make_problem(size, 1, options, 1, 1))->grid_shape();
        expect(make_problem(size, 3, options, 800, 41, grid), 1.0);
        // Here the aliases of all samples have the same sign, and the window's edge belongs to one side: up to 2.5
        // times the mean over positions.
        expect(make_problem_on_lines(size, 3, options, 800, 42, grid), 2.5);
      }
  }
  /// `factor`: by which the error may exceed the tolerance.
  template <class Truth>
  void expect_close(const std::vector<cfloat>& values, const Truth& truth, const Problem& p,
                    const numerics::NufftPlan& made, double factor = 1) {
    EXPECT_LT(relative_error(values, truth, values.size()), factor * tolerance(p.options, p.image, made.grid_shape()))
        << p.image.text() << " x " << p.coils << " width " << p.options.kernel_width << " oversampling "
        << p.options.oversampling;
  }
};

}  // namespace echotrain::testing
