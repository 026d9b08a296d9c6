// Distorted lines are blobs in echo-planar images of a field that is off, from their k-space in float64.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "tests/support/direct_sum.h"

namespace echotrain::testing {

/// Columns [y, x] of blobs. Row n of k-space is measured at the time (n - floor(ny / 2)) line_s, so that a place y in a
/// field f appears at y + s(y), s = -f line_s ny: k-space is the integral over the object, on a lattice that is eight
/// times as fine as voxels; the image is its sum over rows.
struct DistortedLines {
  std::int64_t ny, nx;
  std::vector<float> hz, shift;  // [y, x]; line_s = 1 ms / ny
  std::vector<numerics::cdouble> object;
  std::vector<numerics::cfloat> distorted;

  static constexpr double kLine = 1e-3;  // s, times ny

  /// most: the largest shift [voxels], of either sign.
  DistortedLines(std::int64_t rows, std::int64_t columns, double most) : ny(rows), nx(columns) {
    using numerics::cdouble;
    constexpr int kFine = 8;
    distorted.resize(static_cast<std::size_t>(ny * nx));
    const auto n = static_cast<double>(ny);
    const auto shift_at = [&](double y, std::int64_t x) {
      return most * std::sin(2 * std::numbers::pi * y / n * 0.9 + 0.3 * static_cast<double>(x));
    };
    const auto object_at = [&](double y, std::int64_t x) {
      cdouble sum = 0;
      for (const double centre : {-0.25, -0.02, 0.2}) {
        const double d = y - centre * n - 0.1 * static_cast<double>(x);
        sum += std::polar(1 + centre, 0.2 * y) * std::exp(-d * d / (2 * 2.2 * 2.2));
      }
      return sum;
    };
    for (std::int64_t y = 0; y < ny; ++y)
      for (std::int64_t x = 0; x < nx; ++x) {
        shift.push_back(static_cast<float>(shift_at(static_cast<double>(y - ny / 2), x)));
        hz.push_back(-shift.back() / static_cast<float>(kLine));
        object.push_back(object_at(static_cast<double>(y - ny / 2), x));
      }
    for (std::int64_t x = 0; x < nx; ++x) {
      std::vector<cdouble> k(static_cast<std::size_t>(ny)), image(k.size());
      for (std::int64_t fine = 0; fine < ny * kFine; ++fine) {
        const double y = static_cast<double>(fine) / kFine - static_cast<double>(ny / 2);
        const cdouble value = object_at(y, x) / static_cast<double>(kFine);
        for (std::int64_t row = 0; row < ny; ++row)
          k[static_cast<std::size_t>(row)] +=
              value *
              std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(row - ny / 2) / n * (y + shift_at(y, x)));
      }
      for (std::int64_t y = 0; y < ny; ++y) {
        for (std::int64_t row = 0; row < ny; ++row)
          image[static_cast<std::size_t>(y)] +=
              k[static_cast<std::size_t>(row)] / n *
              std::polar(1.0, 2 * std::numbers::pi * static_cast<double>((row - ny / 2) * (y - ny / 2)) / n);
        distorted[static_cast<std::size_t>(y * nx + x)] = numerics::cfloat(image[static_cast<std::size_t>(y)]);
      }
    }
  }
};

}  // namespace echotrain::testing
