// A gradient phantom is blobs in a scanner whose gradients are not linear, as their image shows them: in float64.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gadgets/numerics/mri/field/gradient_field.h"

namespace echotrain::testing {

/// An image [z, y, x] of 4 mm voxels, whose axes are turned against the device's unless places are given. Signals of
/// place r appear at w = u + s(u) along y, u = r + d(r), with their density over the stretch. For each voxel w,
/// fixed-point steps find r. Planes lie off the isocentre.
struct GradientPhantom {
  std::int64_t nx, ny, nz;
  numerics::VoxelPlaces places;
  numerics::GradientHarmonics harmonics;
  numerics::GradientField field;
  std::vector<float> shift;  // s at voxels
  std::vector<numerics::cdouble> object;
  std::vector<numerics::cfloat> distorted;

  static constexpr double kVoxel = 4;
  using Vector = std::array<double, 3>;
  struct Displaced {
    Vector voxels;
    double factor;  // the determinant of all derivatives
  };

  /// most_shift: of s [voxels]. An image of one plane is that of objects that do not change across it.
  GradientPhantom(std::int64_t columns, std::int64_t rows, std::int64_t planes, double most_shift)
      : GradientPhantom(columns, rows, planes, most_shift, turned_places({columns, rows, planes})) {}
  GradientPhantom(std::int64_t columns, std::int64_t rows, std::int64_t planes, double most_shift,
                  const numerics::VoxelPlaces& where)
      : nx(columns),
        ny(rows),
        nz(planes),
        places(where),
        harmonics(some_harmonics()),
        field(harmonics),
        most_(most_shift) {
    for (std::int64_t v = 0; v < nz * ny * nx; ++v) {
      const Vector at = place_of(v);
      shift.push_back(static_cast<float>(shift_at(at)));
      object.push_back(object_at(at));
      distorted.push_back(numerics::cfloat(image_at(at)));
    }
  }

  Displaced displacement_at(std::size_t voxel) const { return displaced(place_of(static_cast<std::int64_t>(voxel))); }

 private:
  static constexpr double kPi = 3.14159265358979323846;
  double most_;

  Vector place_of(std::int64_t v) const {  // voxels from voxel 0
    return {static_cast<double>(v % nx), static_cast<double>(v / nx % ny), static_cast<double>(v / nx / ny)};
  }
  static numerics::VoxelPlaces turned_places(const std::array<std::int64_t, 3>& n) {
    const double c = std::cos(0.3), s = std::sin(0.3);
    numerics::VoxelPlaces out;
    out.step = {{{kVoxel * c, -kVoxel * s, 0}, {0, 0, -kVoxel}, {kVoxel * s, kVoxel * c, 0}}};
    out.first = {6, -3, 20};
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t a = 0; a < 3; ++a) out.first[i] -= static_cast<double>(n[a] / 2) * out.step[a][i];
      if (n[2] == 1) out.first[i] += 5 * out.step[2][i];
    }
    return out;
  }
  /// Terms of degrees 3 and 5, as coils have them, and one of degree 9.
  static numerics::GradientHarmonics some_harmonics() {
    using H = numerics::GradientHarmonics;
    H out{125, 9, {}};
    for (auto& terms : out.of_coil) terms.resize(H::place(9, 9) + 1);
    out.of_coil[0][H::place(3, 1)] = {-0.10, 0.01};
    out.of_coil[0][H::place(5, 3)] = {0.03, 0};
    out.of_coil[1][H::place(3, 1)] = {0.02, -0.11};
    out.of_coil[1][H::place(5, 1)] = {0, 0.03};
    out.of_coil[2][H::place(3, 0)] = {-0.12, 0};
    out.of_coil[2][H::place(3, 2)] = {0.02, 0.01};
    out.of_coil[2][H::place(9, 4)] = {0.01, -0.01};
    return out;
  }
  Displaced displaced(const Vector& voxel) const {
    Vector mm = places.first;
    for (std::size_t a = 0; a < 3; ++a)
      for (std::size_t i = 0; i < 3; ++i) mm[i] += voxel[a] * places.step[a][i];
    const auto f = field.at(mm);
    Displaced out{};
    for (std::size_t a = 0; a < 3; ++a)
      for (std::size_t i = 0; i < 3; ++i) out.voxels[a] += places.step[a][i] * f[i] / (kVoxel * kVoxel);
    const auto d = [&](std::size_t row, std::size_t column) {
      return (row == column ? 1 : 0) + f[3 + 3 * row + column];
    };
    out.factor = d(0, 0) * (d(1, 1) * d(2, 2) - d(1, 2) * d(2, 1)) - d(0, 1) * (d(1, 0) * d(2, 2) - d(1, 2) * d(2, 0)) +
                 d(0, 2) * (d(1, 0) * d(2, 1) - d(1, 1) * d(2, 0));
    return out;
  }
  double shift_at(const Vector& u) const {
    return most_ * std::sin(2 * kPi * (u[1] / static_cast<double>(ny) * 0.8 + 0.01 * u[0] + 0.007 * u[2]));
  }
  numerics::cdouble object_at(const Vector& r) const {
    numerics::cdouble sum = 0;
    for (const double c : {-0.3, 0.0, 0.28}) {
      const double x = r[0] - (0.5 + c) * static_cast<double>(nx), y = r[1] - (0.5 - 0.8 * c) * static_cast<double>(ny),
                   z = nz == 1 ? 0 : r[2] - (0.5 + 0.6 * c) * static_cast<double>(nz);
      sum += std::polar(1 + c, 0.2 * y) * std::exp(-(x * x + y * y + z * z) / (2 * 2.8 * 2.8));
    }
    return sum;
  }
  numerics::cdouble image_at(const Vector& w) const {
    Vector u = w;  // w_y = u_y + s(u)
    for (int i = 0; i < 60; ++i) u[1] = w[1] - shift_at(u);
    Vector r = u;
    double step = 1;  // voxels; derivatives below 1 make it shrink
    for (int i = 0; step > 1e-9 && i < 500; ++i) {
      const auto d = displaced(r);
      step = 0;
      for (std::size_t a = 0; a < (nz == 1 ? 2 : 3); ++a) {
        step = std::max(step, std::abs(u[a] - d.voxels[a] - r[a]));
        r[a] = u[a] - d.voxels[a];
      }
    }
    Vector low = u, high = u;
    constexpr double kStep = 1e-4;
    low[1] -= kStep, high[1] += kStep;
    return object_at(r) / (displaced(r).factor * (1 + (shift_at(high) - shift_at(low)) / (2 * kStep)));
  }
};

}  // namespace echotrain::testing
