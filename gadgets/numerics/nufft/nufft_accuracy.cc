#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "gadgets/numerics/nufft/kaiser_bessel.h"
#include "gadgets/numerics/nufft/nufft.h"

namespace echotrain::numerics {
namespace {

/// How much the division by the kernel's transform amplifies the rounding of fp32 sums: per axis
/// sqrt(mean Phi^2 mean Phi^-2).
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

/// Work per voxel, up to a factor: a scan has about as many samples as its image has voxels, and the transform of one
/// grid point costs as much as some ten footprint points.
double work(const NufftOptions& options, std::size_t dims) {
  constexpr double kTransform = 12;
  return std::pow(options.kernel_width, dims) + kTransform * std::pow(options.oversampling, dims);
}

}  // namespace

NufftOptions options_for_accuracy(double accuracy, const Shape& image) {
  constexpr double kRounding = 2.5e-7;  // relative, of sums in fp32 before their amplification
  NufftOptions best;
  double least = 0, reached = 0;
  for (const double oversampling : {1.25, 1.375, 1.5, 1.75, 2.0})
    for (int width = 2; width <= FootprintWeights::kWidest; ++width) {
      const NufftOptions options{width, oversampling};
      const double cost = work(options, image.rank());
      if (least > 0 && cost >= least) continue;
      const double error = expected_error(options, image) + kRounding * amplification(options, image);
      if (reached == 0 || error < reached) reached = error;
      if (error <= accuracy) {
        least = cost;
        best = options;
      }
    }
  if (least == 0)
    throw std::invalid_argument(fmt::format("an accuracy of {:.2g} cannot be reached for an image of {}; {:.2g} can",
                                            accuracy, image.text(), 1.01 * reached));
  return best;
}

}  // namespace echotrain::numerics
