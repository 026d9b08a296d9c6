// A scene of coils with known receive fields around an object, in the patient's coordinates.
#pragma once

#include <cmath>
#include <numbers>
#include <vector>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {

using Place = std::array<double, 3>;  // [mm]

/// A slice (or a volume) and its grid.
struct Box {
  std::array<int, 3> n{64, 60, 1};
  std::array<double, 3> fov{224, 210, 5};  // [mm]
  Place position{0, 0, 0};
  std::array<Place, 3> axes{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};  // read, phase, slice

  Place at(double x, double y, double z) const {  // of voxel indices
    Place out = position;
    const std::array<double, 3> index{x, y, z};
    for (std::size_t a = 0; a < 3; ++a)
      for (std::size_t i = 0; i < 3; ++i) out[i] += axes[a][i] * (index[a] - n[a] / 2) * fov[a] / n[a];
    return out;
  }
};

inline Box turned(Box box, double degrees) {  // in its plane
  const double c = std::cos(degrees * std::numbers::pi / 180), s = std::sin(degrees * std::numbers::pi / 180);
  box.axes = {{{c, s, 0}, {-s, c, 0}, {0, 0, 1}}};
  return box;
}

struct ReceiveScene {
  int coils = 4;
  double noise = 0;  // of readouts of the prescan, over the object's brightness

  static double object(const Place& p) {
    const double r = std::hypot(p[0] / 85, p[1] / 75, p[2] / 90);
    const double edge = 1 / (1 + std::exp((r - 1) / 0.04));
    return edge * (1 + 0.4 * std::sin(p[0] / 9) * std::cos(p[1] / 11));
  }
  /// The sensitivity of one of the coils around the object.
  cdouble coil(int c, const Place& p) const {
    const double angle = 2 * std::numbers::pi * c / coils;
    const double distance = std::hypot(p[0] - 130 * std::cos(angle), p[1] - 130 * std::sin(angle), p[2]);
    return std::polar(std::exp(-distance / 70) * (1 + 0.5 * c), angle + p[0] / 200);
  }
  double field(const Place& p, const std::vector<double>& weights = {}) const {
    double sum = 0;
    for (int c = 0; c < coils; ++c)
      sum += std::norm(coil(c, p)) * (weights.empty() ? 1 : weights[static_cast<std::size_t>(c)]);
    return std::sqrt(sum);
  }
  /// The body coil's channels see alike.
  static cdouble body(int c, const Place& /*p*/) { return c == 0 ? cdouble(0.6, 0) : cdouble(0, 0.8); }

  /// Cartesian lines of a box, in order; `fine` samples of the object per voxel and axis in its plane. `scale`: of
  /// readouts, [coil], for all of them 1 if empty.
  std::vector<Acquisition> lines(const Box& box, bool of_body, int fine = 1,
                                 const std::vector<double>& scale = {}) const {
    const int channels = of_body ? 2 : coils, nx = box.n[0], ny = box.n[1], nz = box.n[2];
    std::mt19937 random(5);
    std::vector<Acquisition> out;
    std::vector<std::vector<cdouble>> rows;  // [z * y fine][coil, kx]
    const auto turn = [](double cycles) { return std::polar(1.0, -2 * std::numbers::pi * cycles); };
    for (int z = 0; z < nz; ++z)
      for (int y = 0; y < ny * fine; ++y) {
        auto& row = rows.emplace_back(static_cast<std::size_t>(channels * nx));
        for (int x = 0; x < nx * fine; ++x) {
          const Place p = box.at(static_cast<double>(x) / fine, static_cast<double>(y) / fine, z);
          for (int c = 0; c < channels; ++c) {
            const cdouble seen = object(p) * (of_body ? body(c, p) : coil(c, p)) *
                                 (scale.empty() ? 1 : scale[static_cast<std::size_t>(c)]) / (1.0 * fine * fine);
            for (int k = 0; k < nx; ++k)
              row[static_cast<std::size_t>(c * nx + k)] +=
                  seen * turn((static_cast<double>(x) / fine - nx / 2) * (k - nx / 2) / nx);
          }
        }
      }
    for (int kz = 0; kz < nz; ++kz)
      for (int ky = 0; ky < ny; ++ky) {
        std::vector<cdouble> sum(rows.front().size());
        for (int z = 0; z < nz; ++z)
          for (int y = 0; y < ny * fine; ++y) {
            const cdouble phase = turn((static_cast<double>(y) / fine - ny / 2) * (ky - ny / 2) / ny +
                                       static_cast<double>(z - nz / 2) * (kz - nz / 2) / nz);
            const auto& row = rows[static_cast<std::size_t>(z * ny * fine + y)];
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += phase * row[i];
          }
        auto data = testing::noise(sum.size(), random, noise * std::sqrt(1.0 * nx * ny * nz));
        for (std::size_t i = 0; i < sum.size(); ++i) data[i] += cfloat(sum[i]);
        out.push_back(placed(readout(channels, std::move(data)), box));
        out.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(ky);
        out.back().head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(kz);
      }
    return out;
  }
  /// The lines of the body coil and of the array, flagged as a prescan, of encoding space 1.
  std::vector<Acquisition> prescan(const Box& box, const std::vector<double>& scale = {}) const {
    auto out = lines(box, true, 2), array = lines(box, false, 2, scale);
    out.insert(out.end(), std::make_move_iterator(array.begin()), std::make_move_iterator(array.end()));
    for (auto& line : out) {
      set_flag(line, 29);
      line.head.encoding_space_ref = 1;
    }
    return out;
  }
  static Acquisition placed(Acquisition line, const Box& box) {
    for (std::size_t i = 0; i < 3; ++i) {
      line.head.position[i] = static_cast<float>(box.position[i]);
      line.head.read_dir[i] = static_cast<float>(box.axes[0][i]);
      line.head.phase_dir[i] = static_cast<float>(box.axes[1][i]);
      line.head.slice_dir[i] = static_cast<float>(box.axes[2][i]);
    }
    return line;
  }
};

inline HeaderSpec spec_of(const Box& box) {
  return {.encoded = box.n,
          .encoded_fov = box.fov,
          .limits = step_limit(box.n[1]) + limit("kspace_encoding_step_2", 0, box.n[2] - 1, box.n[2] / 2)};
}
/// A header of an image, encoding space 0, and its prescan, encoding space 1.
inline protocol::Header header_of(const Box& image, const Box& prescan) {
  return header({spec_of(image), spec_of(prescan)});
}

}  // namespace echotrain::testing
