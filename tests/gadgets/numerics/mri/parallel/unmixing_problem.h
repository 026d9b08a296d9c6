// An unmixing problem is an accelerated frame with its reference lines and maps, and sums by their definitions.
#pragma once

#include "gadgets/numerics/transforms/fft/line_images.h"
#include "tests/gadgets/numerics/mri/parallel/plain_grappa.h"

namespace echotrain::testing {

using numerics::GrappaOptions;
using numerics::LineGeometry;
using numerics::Shape;

struct UnmixingCase {
  Lattice lattice;
  GrappaOptions options;
  std::int64_t coils;
  Shape encoded, padded, image;
  std::int64_t first_y, last_y;  // rows that were acquired
  std::int64_t band;             // rows in the middle of each axis that came whole
};

inline cdouble turn(std::int64_t k, std::int64_t r, std::int64_t n) {
  return std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(k * r) / static_cast<double>(n));
}

/// The frame of a case, and what is the truth about it.
struct UnmixingProblem {
  UnmixingCase c;
  KSpaceOfTest frame;  // x as in the transform's grid, zeros outside of what is encoded
  RowPlan rows;
  std::vector<cfloat> maps;

  explicit UnmixingProblem(const UnmixingCase& of)
      : c(of), frame(of.coils, of.encoded[0], of.encoded[1], of.padded[2]) {
    const KSpaceOfTest k = correlated_kspace(c.coils, c.encoded[0], c.encoded[1], c.encoded[2], 3);
    std::vector<std::uint8_t> came;
    const auto middle = [&](std::int64_t i, std::int64_t n) { return std::abs(i - n / 2) <= c.band / 2; };
    for (std::int64_t z = 0; z < c.encoded[0]; ++z)
      for (std::int64_t y = 0; y < c.encoded[1]; ++y) {
        const bool reference = middle(y, c.encoded[1]) && middle(z, c.encoded[0]);
        const bool in = y >= c.first_y && y <= c.last_y && (reference || c.lattice.contains(y, z));
        came.push_back(in ? 1 : 0);
        if (in)
          for (std::int64_t coil = 0; coil < c.coils; ++coil)
            for (std::int64_t x = 0; x < c.encoded[2]; ++x)
              if (const std::int64_t at = x - c.encoded[2] / 2 + c.padded[2] / 2; at >= 0 && at < c.padded[2])
                frame.at(coil, z, y, at) = k.at(coil, z, y, x);
      }
    rows = plan_rows(c.lattice, c.encoded[1], c.encoded[0], came);
    Random random(8);
    const std::int64_t voxels = c.image.size();
    maps.resize(static_cast<std::size_t>(c.coils * voxels));
    for (std::int64_t v = 0; v < voxels; ++v) {
      if (v % 11 == 3) continue;  // no map
      float size = 0;
      std::vector<cfloat> s;
      for (std::int64_t coil = 0; coil < c.coils; ++coil) {
        s.push_back(random.normal());
        size += std::norm(s.back());
      }
      for (std::int64_t coil = 0; coil < c.coils; ++coil)
        maps[static_cast<std::size_t>(coil * voxels + v)] = s[static_cast<std::size_t>(coil)] / std::sqrt(size);
    }
  }

  KSpaceOfTest calibration() const {
    const auto extent = [&](std::size_t a, std::int64_t least) {
      return c.encoded[a] == 1 ? 1 : std::max(least, c.encoded[a]);
    };
    return correlated_kspace(c.coils, extent(0, 8), extent(1, 14), extent(2, 12), 3);
  }
  LineGeometry geometry() const { return {c.encoded, c.padded, c.image, numerics::Direction::inverse}; }

  /// [coil, row, image x] of rows, their x transformed.
  std::vector<cdouble> half() const {
    std::vector<cdouble> out;
    for (std::int64_t i = 0; i < c.coils * c.encoded[0] * c.encoded[1]; ++i)
      for (std::int64_t x = 0; x < c.image[2]; ++x) {
        cdouble sum = 0;
        for (std::int64_t k = 0; k < c.padded[2]; ++k)
          sum += frame.data[static_cast<std::size_t>(i * c.padded[2] + k)] *
                 turn(k - c.padded[2] / 2, x - c.image[2] / 2, c.padded[2]);
        out.push_back(sum);
      }
    return out;
  }
  /// Adds a row at these places from k-space's centre to an image: factor(voxel) * row[x].
  template <class Factor>
  void add_row(std::int64_t ky, std::int64_t kz, const cdouble* row, const Factor& factor,
               std::vector<cdouble>& image) const {
    std::size_t v = 0;
    for (std::int64_t z = 0; z < c.image[0]; ++z)
      for (std::int64_t y = 0; y < c.image[1]; ++y) {
        const cdouble phase = turn(ky, y - c.image[1] / 2, c.padded[1]) * turn(kz, z - c.image[0] / 2, c.padded[0]);
        for (std::int64_t x = 0; x < c.image[2]; ++x, ++v) image[v] += factor(v) * phase * row[x];
      }
  }
  /// True if a row is inside the transform's grid.
  bool in_grid(std::int64_t ky, std::int64_t kz) const {
    return ky >= -(c.padded[1] / 2) && ky < (c.padded[1] + 1) / 2 && kz >= -(c.padded[0] / 2) &&
           kz < (c.padded[0] + 1) / 2;
  }
};

}  // namespace echotrain::testing
