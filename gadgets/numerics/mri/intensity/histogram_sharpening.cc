#include "gadgets/numerics/mri/intensity/histogram_sharpening.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace echotrain::numerics {
namespace {

/// The bin below a value, and the share of the bin above it.
struct Binned {
  std::int64_t bin;
  double above;
};

Binned bin_of(double value, double least, double step, int bins) {
  const double at = (value - least) / step;
  const std::int64_t bin = std::clamp<std::int64_t>(static_cast<std::int64_t>(at), 0, bins - 2);
  return {bin, at - static_cast<double>(bin)};
}

// Lines of complex numbers hold real and imaginary parts in turn.
double& real(std::vector<double>& line, std::int64_t i) { return line[static_cast<std::size_t>(2 * i)]; }
double& imag(std::vector<double>& line, std::int64_t i) { return line[static_cast<std::size_t>(2 * i + 1)]; }

}  // namespace

HistogramSharpening::HistogramSharpening(int bins, double width, double noise)
    : bins_(bins),
      width_(width),
      noise_(noise),
      padded_(2 * static_cast<std::int64_t>(std::bit_ceil(static_cast<unsigned>(bins)))),
      plan_(padded_) {}

void HistogramSharpening::transform(std::vector<double>& line, bool inverse) const {
  const auto conjugate = [&] {
    for (std::int64_t i = 0; i < padded_; ++i) imag(line, i) = -imag(line, i);
  };
  if (inverse) conjugate();
  plan_.execute(line.data());
  if (inverse) conjugate();
  if (inverse)
    for (double& v : line) v /= static_cast<double>(padded_);
}

void HistogramSharpening::sharpen(std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double low = *least, step = (*most - low) / (bins_ - 1);
  if (!(step > 0)) return;
  const std::int64_t first = (padded_ - bins_) / 2;  // bin 0's place in a padded line
  std::vector<double> seen(static_cast<std::size_t>(2 * padded_), 0.0), blur = seen;
  for (const double v : values) {
    const Binned at = bin_of(v, low, step, bins_);
    real(seen, first + at.bin) += 1 - at.above;
    real(seen, first + at.bin + 1) += at.above;
  }
  const double width = width_ / step, peak = 2 * std::sqrt(std::numbers::ln2 / std::numbers::pi) / width;
  for (std::int64_t i = 0; i < padded_; ++i) {
    const auto distance = static_cast<double>(std::min(i, padded_ - i));
    real(blur, i) = peak * std::exp(-4 * std::numbers::ln2 * distance * distance / (width * width));
  }
  transform(blur, false);  // real, as the Gaussian is even
  transform(seen, false);
  for (std::int64_t i = 0; i < padded_; ++i) {
    const double wiener = real(blur, i) / (real(blur, i) * real(blur, i) + noise_);
    real(seen, i) *= wiener;
    imag(seen, i) *= wiener;
  }
  transform(seen, true);
  // The true values' density is real; their sum over it, weighted by the value, rides as the imaginary part.
  for (std::int64_t i = 0; i < padded_; ++i) {
    real(seen, i) = std::max(0.0, real(seen, i));
    imag(seen, i) = real(seen, i) * (low + static_cast<double>(i - first) * step);
  }
  transform(seen, false);
  for (std::int64_t i = 0; i < padded_; ++i) {
    real(seen, i) *= real(blur, i);
    imag(seen, i) *= real(blur, i);
  }
  transform(seen, true);
  const auto expected = [&](std::int64_t bin) {
    return real(seen, first + bin) != 0 ? imag(seen, first + bin) / real(seen, first + bin) : 0;
  };
  std::vector<double> table;
  for (std::int64_t bin = 0; bin < bins_; ++bin) table.push_back(expected(bin));
  for (double& v : values) {
    const Binned at = bin_of(v, low, step, bins_);
    const double below = table[static_cast<std::size_t>(at.bin)], above = table[static_cast<std::size_t>(at.bin + 1)];
    v = below + at.above * (above - below);
  }
}

}  // namespace echotrain::numerics
