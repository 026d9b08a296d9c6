#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <numbers>
#include <optional>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/transforms/nufft/kaiser_bessel.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "gadgets/numerics/transforms/nufft/nufft_plan.h"

namespace echotrain::numerics {
namespace {

/// The image of a voxel of an axis: a sample at u between grid points gives sum_m phi(m - u) exp(2 pi i (m - u) f) /
/// Phi(f) instead of 1 at the voxel of frequency f = r / grid.
struct AxisValues {
  struct Position {
    std::complex<double> mean;  ///< mean over the axis' voxels
    double mean_square;
  };
  std::vector<Position> positions;  ///< the first is on the grid's lines; the others are even positions between them
  /// The mean over the even positions and the voxels of |value - 1|^2. By Parseval it is the aliasing sum sum_{j != 0}
  /// |Phi(f + j)|^2 / |Phi(f)|^2.
  double squared_error = 0;
};

AxisValues axis_values(std::int32_t width, std::int32_t grid, std::int32_t image) {
  constexpr int kPositions = 64;  // number of even positions
  using Factor = std::complex<double>;
  const KaiserBessel window(width, static_cast<double>(grid) / image);
  // The distance from the sample of a footprint's point, counted from the first.
  const auto distance = [&](int p) { return (p == 0 ? 0 : (p - 0.5) / kPositions) - width / 2.0; };
  std::vector<double> phi;
  for (int p = 0; p <= kPositions; ++p)
    for (int j = 0; j < width; ++j) phi.push_back(window.value(j + distance(p)));
  AxisValues values;
  values.positions.resize(kPositions + 1);
  for (std::int32_t i = 0; i < image; ++i) {
    const double f = static_cast<double>(i - image / 2) / grid, gain = window.transform(f);
    const auto turn = [f](double d) { return std::polar(1.0, 2 * std::numbers::pi * d * f); };
    const Factor point = turn(1), position = turn(1.0 / kPositions);
    Factor first = turn(distance(0));
    for (int p = 0; p <= kPositions; ++p) {
      if (p == 1) first = turn(distance(1));
      if (p > 1) first *= position;
      const double* weights = phi.data() + static_cast<std::ptrdiff_t>(p) * width;
      Factor value = weights[width - 1];
      for (int j = width - 2; j >= 0; --j) value = value * point + weights[j];  // by Horner's rule
      value *= first / gain;
      AxisValues::Position& at = values.positions[static_cast<std::size_t>(p)];
      at.mean += value / static_cast<double>(image);
      at.mean_square += std::norm(value) / image;
      if (p > 0) values.squared_error += std::norm(value - 1.0) / (static_cast<double>(kPositions) * image);
    }
  }
  return values;
}

Tiling tiling_of(const NufftOptions& options, const Shape& image) {
  return make_tiling(image, options, default_tuning(static_cast<int>(image.rank()), Backend::cpu));
}

/// Calls visit(values) for each axis, slowest first.
template <class Visit>
void for_axes(const NufftOptions& options, const Shape& image, const Visit& visit) {
  const Tiling t = tiling_of(options, image);
  AxisValues values;
  for (int a = 3 - t.dims; a < 3; ++a) {
    const bool as_before = a > 3 - t.dims && t.grid[a] == t.grid[a - 1] && t.image[a] == t.image[a - 1];
    if (!as_before) values = axis_values(t.width, t.grid[a], t.image[a]);
    visit(values);
  }
}

/// The amplification of the rounding of fp32 sums by the division by the kernel's transform: per axis sqrt(mean Phi^2
/// mean Phi^-2).
double amplification(const NufftOptions& options, const Shape& image) {
  const KaiserBessel window(options.kernel_width, options.oversampling);
  double product = 1;
  for (const std::int64_t n : image) {
    double squares = 0, inverse_squares = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double phi =
          window.transform(static_cast<double>(i - n / 2) / (options.oversampling * static_cast<double>(n)));
      squares += phi * phi;
      inverse_squares += 1 / (phi * phi);
    }
    product *= std::sqrt(squares * inverse_squares) / static_cast<double>(n);
  }
  return product;
}

/// The share of the relative rounding of products that remains in the image. It is white on the whole grid, of whose
/// transform the image is a part: per axis sqrt(sum phi^2 mean Phi^-2), the sum over a footprint.
double noise_gain(const NufftOptions& options, const Shape& image) {
  constexpr int kPositions = 16;  // positions of each point of a footprint
  const KaiserBessel window(options.kernel_width, options.oversampling);
  double energy = 0;
  for (int i = 0; i < kPositions * options.kernel_width; ++i)
    energy += std::pow(window.value((i + 0.5) / kPositions - options.kernel_width / 2.0), 2) / kPositions;
  double product = 1;
  for (const std::int64_t n : image) {
    double inverse_squares = 0;
    for (std::int64_t i = 0; i < n; ++i)
      inverse_squares += std::pow(
          window.transform(static_cast<double>(i - n / 2) / (options.oversampling * static_cast<double>(n))), -2);
    product *= std::sqrt(energy * inverse_squares / static_cast<double>(n));
  }
  return product;
}

double rounding_error(const NufftOptions& options, const Shape& image) {
  constexpr double kRounding = 2.5e-7;  // relative, of sums in fp32 before their amplification
  return kRounding * amplification(options, image);
}

/// A lower bound of either error of these options: the contribution of the voxel at an axis' edge alone.
double least_error(const NufftOptions& options, const Shape& image) {
  const Tiling t = tiling_of(options, image);
  const KaiserBessel window(t.width, static_cast<double>(t.grid[2]) / t.image[2]);
  // The nearest alias of that voxel; no term of the full sum is negative.
  const double f = -static_cast<double>(t.image[2] / 2) / t.grid[2], alias = window.transform(f + 1);
  return std::abs(alias / window.transform(f)) / std::sqrt(static_cast<double>(t.image[2]));
}

/// The work per voxel on CUDA, up to a factor: a scan has about as many samples as its image has voxels, and the
/// transform of one grid point costs as much as some ten footprint points.
double work_on_cuda(const NufftOptions& options, std::size_t dims) {
  constexpr double kTransform = 12;
  return std::pow(options.kernel_width, dims) + kTransform * std::pow(options.oversampling, dims);
}

/// The work on the CPU, in footprint points, as measured on a processor with AVX-512 (docs/performance.md): a grid
/// point costs kWrite to write and about kTransform to transform, and FFTW likes powers of two.
double work_on_cpu(const NufftOptions& options, const Shape& image, double samples) {
  constexpr double kWrite = 9, kTransform = 28, kOddPart = 4.6, kStretches = 1.6;
  double voxels = 1, points = 1, odd = 0;
  const Tiling t = tiling_of(options, image);
  for (int a = 3 - t.dims; a < 3; ++a) {
    const std::int32_t n = t.grid[a];
    voxels *= t.image[a];
    points *= n;
    odd += std::log2(n >> std::countr_zero(static_cast<std::uint32_t>(n))) / t.dims;
  }
  // The default is spokes of twice the extent's samples, at the angular density that an image needs; a 3D scan rarely
  // has that many.
  if (samples <= 0) samples = voxels * (t.dims == 3 ? 0.3 : 3);
  const double gather = samples * std::pow(t.width, t.dims) * (sums_in_stretches(options) ? kStretches : 1);
  return (gather + points * (kWrite + kTransform + kOddPart * odd)) / voxels;
}

double work(const NufftOptions& options, const Shape& image, const NufftLoad& load) {
  return load.backend == Backend::cuda ? work_on_cuda(options, image.rank())
                                       : work_on_cpu(options, image, static_cast<double>(load.samples));
}

/// The search for the options of least work whose error(options) is at most `accuracy`, and for the least error of
/// those tried.
struct Found {
  std::optional<NufftOptions> options;
  double reached = 0;
};
template <class Error>
Found find_options(double accuracy, const Shape& image, const NufftLoad& load, const Error& error, bool all = false) {
  Found found;
  double least = 0;
  for (const double oversampling : {1.25, 1.375, 1.5, 1.75, 2.0})
    for (int width = 2; width <= FootprintWeights::kWidest; ++width) {
      const NufftOptions options{width, oversampling};
      const double cost = work(options, image, load);
      if ((least > 0 && cost >= least) || (!all && least_error(options, image) > accuracy)) continue;
      const double here = error(options);
      if (found.reached == 0 || here < found.reached) found.reached = here;
      if (here <= accuracy) {
        least = cost;
        found.options = options;
      }
    }
  return found;
}

}  // namespace

double expected_error(const NufftOptions& options, const Shape& image) {
  // Axes are independent, so their (1 + error^2) multiply.
  double product = 1;
  for_axes(options, image, [&](const AxisValues& values) { product *= 1 + values.squared_error; });
  return std::sqrt(product - 1);
}

double largest_error(const NufftOptions& options, const Shape& image) {
  // The product v of the axes' values has mean |v - 1|^2 = mean |v|^2 - 2 Re mean v + 1.
  std::vector<AxisValues::Position> products;
  for_axes(options, image, [&](const AxisValues& values) {
    products.resize(values.positions.size(), {1, 1});
    for (std::size_t p = 0; p < products.size(); ++p) {
      products[p].mean *= values.positions[p].mean;
      products[p].mean_square *= values.positions[p].mean_square;
    }
  });
  double largest = 0;
  for (const auto& [mean, mean_square] : products) largest = std::max(largest, mean_square - 2 * mean.real() + 1);
  return std::hypot(std::sqrt(largest), rounding_error(options, image));
}

Sums sums_within_slack(const NufftOptions& options, const Shape& image) {
  if (sums_in_stretches(options)) return Sums::stretches;
  if (options.use != NufftUse::adjoint || options.slack <= 0) return Sums::full;
  const double gain = noise_gain(options, image), most = amplification(options, image);
  const double rounding = rounding_error(options, image);  // beside the other errors: sums are in fp32 in any case
  for (const Sums sums : {Sums::coarse, Sums::fine})
    if (std::hypot(gain * product_error(sums), most * window_error(sums), rounding) <= options.slack) return sums;
  return Sums::full;
}

NufftOptions options_for_accuracy(double accuracy, const Shape& image, const NufftLoad& load) {
  const auto error = [&](const NufftOptions& options) {
    return expected_error(options, image) + rounding_error(options, image);
  };
  if (const Found found = find_options(accuracy, image, load, error); found.options) return *found.options;
  throw std::invalid_argument(fmt::format("an accuracy of {:.2g} cannot be reached for an image of {}; {:.2g} can",
                                          accuracy, image.text(),
                                          1.01 * find_options(accuracy, image, load, error, true).reached));
}

std::optional<NufftOptions> options_within(double error, const Shape& image, const NufftLoad& load) {
  return find_options(error, image, load, [&](const NufftOptions& options) { return largest_error(options, image); })
      .options;
}

}  // namespace echotrain::numerics
