// The direct sum is the non-uniform transform by its definition, in float64: the truth that the fast transforms are
// compared with.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <vector>

#include "gadgets/numerics/core/array.h"

namespace echotrain::testing {

/// exp(2 pi i k r) for all voxels r of an axis of n, centred at floor(n/2).
inline std::vector<numerics::cdouble> phases(double k, std::int64_t n) {
  std::vector<numerics::cdouble> e(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    e[static_cast<std::size_t>(i)] = std::polar(1.0, 2 * std::numbers::pi * k * static_cast<double>(i - n / 2));
  return e;
}

/// image[coil, voxel] = sum_s weights[s] samples[s, coil] exp(+2 pi i k_s . r) for the voxels given by their number in
/// the image (slowest axis first), or for all of them when `voxels` is empty. coordinates: [sample, dims], component 0
/// = x; weights: empty for all 1.
inline std::vector<numerics::cdouble> direct_adjoint(const std::vector<double>& coordinates,
                                                     const std::vector<numerics::cfloat>& samples,
                                                     const std::vector<float>& weights, std::int64_t coils,
                                                     const numerics::Shape& image,
                                                     std::vector<std::int64_t> voxels = {}) {
  using numerics::cdouble;
  const std::size_t dims = image.rank();
  const std::size_t count = coordinates.size() / dims, n_coils = static_cast<std::size_t>(coils);
  if (voxels.empty())
    for (std::int64_t v = 0; v < image.size(); ++v) voxels.push_back(v);
  std::int64_t extent[3] = {1, 1, 1};  // z, y, x
  for (std::size_t a = 0; a < dims; ++a) extent[3 - dims + a] = image[a];

  std::vector<cdouble> result(n_coils * voxels.size());
  std::vector<cdouble> values(n_coils);
  for (std::size_t s = 0; s < count; ++s) {
    const auto k = [&](std::size_t component) { return component < dims ? coordinates[s * dims + component] : 0.0; };
    const auto ex = phases(k(0), extent[2]), ey = phases(k(1), extent[1]), ez = phases(k(2), extent[0]);
    const double w = weights.empty() ? 1.0 : static_cast<double>(weights[s]);
    for (std::size_t c = 0; c < n_coils; ++c) values[c] = w * cdouble(samples[s * n_coils + c]);
    for (std::size_t i = 0; i < voxels.size(); ++i) {
      const std::int64_t v = voxels[i], x = v % extent[2], y = v / extent[2] % extent[1], z = v / extent[2] / extent[1];
      const cdouble e =
          ez[static_cast<std::size_t>(z)] * ey[static_cast<std::size_t>(y)] * ex[static_cast<std::size_t>(x)];
      const double er = e.real(), ei = e.imag();
      for (std::size_t c = 0; c < n_coils; ++c) {
        const double vr = values[c].real(), vi = values[c].imag();
        result[c * voxels.size() + i] += cdouble(er * vr - ei * vi, er * vi + ei * vr);
      }
    }
  }
  return result;
}

/// samples[sample, coil] = sum_r image[coil, r] exp(-2 pi i k_s . r) for the samples of these numbers, or for all of
/// them when `chosen` is empty. coordinates: [sample, dims], component 0 = x; image: [coil, image...] of `extents`.
inline std::vector<numerics::cdouble> direct_forward(const std::vector<double>& coordinates,
                                                     const std::vector<numerics::cfloat>& image, std::int64_t coils,
                                                     const numerics::Shape& extents,
                                                     std::vector<std::int64_t> chosen = {}) {
  using numerics::cdouble;
  const std::size_t dims = extents.rank(), n_coils = static_cast<std::size_t>(coils);
  if (chosen.empty())
    for (std::size_t s = 0; s < coordinates.size() / dims; ++s) chosen.push_back(static_cast<std::int64_t>(s));
  std::size_t n[3] = {1, 1, 1};  // z, y, x
  for (std::size_t a = 0; a < dims; ++a) n[3 - dims + a] = static_cast<std::size_t>(extents[a]);

  std::vector<cdouble> result;
  for (const std::int64_t s : chosen) {
    const auto axis = [&](std::size_t component) {
      const double k = component < dims ? coordinates[static_cast<std::size_t>(s) * dims + component] : 0.0;
      return phases(-k, static_cast<std::int64_t>(n[2 - component]));
    };
    const auto ex = axis(0), ey = axis(1), ez = axis(2);
    for (std::size_t c = 0; c < n_coils; ++c) {
      cdouble sum = 0;
      for (std::size_t z = 0; z < n[0]; ++z)
        for (std::size_t y = 0; y < n[1]; ++y) {
          const numerics::cfloat* row = image.data() + ((c * n[0] + z) * n[1] + y) * n[2];
          double re = 0, im = 0;
          for (std::size_t x = 0; x < n[2]; ++x) {
            const double vr = static_cast<double>(row[x].real()), vi = static_cast<double>(row[x].imag());
            re += ex[x].real() * vr - ex[x].imag() * vi;
            im += ex[x].real() * vi + ex[x].imag() * vr;
          }
          sum += ez[z] * ey[y] * cdouble(re, im);
        }
      result.push_back(sum);
    }
  }
  return result;
}

/// ||a - b|| / ||b||.
template <class A, class B>
double relative_error(const A& a, const B& b, std::size_t n) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < n; ++i) {
    difference += std::norm(numerics::cdouble(a[i]) - numerics::cdouble(b[i]));
    size += std::norm(numerics::cdouble(b[i]));
  }
  return size == 0 ? std::sqrt(difference) : std::sqrt(difference / size);
}

}  // namespace echotrain::testing
