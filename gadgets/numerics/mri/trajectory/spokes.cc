#include "gadgets/numerics/mri/trajectory/spokes.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace echotrain::numerics {
namespace {

constexpr int kHalf = 12, kSteps = 2048;  // samples to either side, and table entries between two
constexpr double kBeta = 8;               // shape of the window: its transform falls below 1e-4 within 0.12
                                          // cycles/sample

/// The modified Bessel function I0, by its series.
double bessel_i0(double x) {
  double term = 1, sum = 1;
  for (int k = 1; term > 1e-17 * sum; ++k) {
    term *= x * x / (4.0 * k * k);
    sum += term;
  }
  return sum;
}

double windowed_sinc(double u) {
  if (std::abs(u) >= kHalf) return 0;
  const double x = std::numbers::pi * u;
  const double sinc = std::abs(x) < 1e-8 ? 1 : std::sin(x) / x;
  return sinc * bessel_i0(kBeta * std::sqrt(1 - u * u / (kHalf * kHalf))) / bessel_i0(kBeta);
}

}  // namespace

SpokeValues::SpokeValues(const Spokes& spokes) : spokes_(spokes) {
  static const auto tables = [] {
    std::array<std::vector<double>, 2> out;
    const double h = 1e-4;
    for (int i = 0; i <= kHalf * kSteps + 1; ++i) {
      const double u = static_cast<double>(i) / kSteps;
      out[0].push_back(windowed_sinc(u));
      out[1].push_back((windowed_sinc(u + h) - windowed_sinc(u - h)) / (2 * h));
    }
    return out;
  }();
  kernel_ = tables[0];
  slope_ = tables[1];
}

template <bool kSlope>
void SpokeValues::sum(std::int64_t spoke, double place, cdouble* out, cdouble* slope) const {
  const std::int64_t channels = spokes_.channels;
  std::fill(out, out + channels, cdouble{});
  if constexpr (kSlope) std::fill(slope, slope + channels, cdouble{});
  const double index = place - spokes_.first[static_cast<std::size_t>(spoke)];
  if (!(index > -kHalf && index < static_cast<double>(spokes_.samples + kHalf))) return;
  const auto middle = static_cast<std::int64_t>(std::floor(index));
  const std::int64_t begin = std::max<std::int64_t>(0, middle - kHalf + 1);
  const std::int64_t end = std::min(spokes_.samples, middle + kHalf + 1);
  const cfloat* value = spokes_.data.data() + (spoke * spokes_.samples + begin) * channels;
  for (std::int64_t s = begin; s < end; ++s) {
    const double u = index - static_cast<double>(s), at = std::abs(u) * kSteps;
    const auto entry = static_cast<std::size_t>(at);
    const double share = at - static_cast<double>(entry);
    const double weight = kernel_[entry] + share * (kernel_[entry + 1] - kernel_[entry]);
    double turn = 0;
    if constexpr (kSlope) {
      turn = slope_[entry] + share * (slope_[entry + 1] - slope_[entry]);
      if (u < 0) turn = -turn;  // the kernel is even
    }
    for (std::int64_t c = 0; c < channels; ++c, ++value) {
      const cdouble v(*value);
      out[c] += weight * v;
      if constexpr (kSlope) slope[c] += turn * v;
    }
  }
}

void SpokeValues::at(std::int64_t spoke, double place, std::vector<cdouble>& out) const {
  out.resize(static_cast<std::size_t>(spokes_.channels));
  sum<false>(spoke, place, out.data(), nullptr);
}

void SpokeValues::at(std::int64_t spoke, double place, std::vector<cdouble>& out, std::vector<cdouble>& slope) const {
  out.resize(static_cast<std::size_t>(spokes_.channels));
  slope.resize(out.size());
  sum<true>(spoke, place, out.data(), slope.data());
}

}  // namespace echotrain::numerics
