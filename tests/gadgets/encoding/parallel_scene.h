// A parallel scene is an object in front of coils whose k-space is known in closed form, and scans of it that leave
// lines out.
#pragma once

#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {

/// The lattice of lines that a scan keeps. A line y of plane z is on the lattice if z - z0 = j R_z and y - y0 - j shift
/// is a multiple of R_y.
struct Leaving {
  int ry = 1, rz = 1, shift = 0, y0 = 0, z0 = 0;
  int band = 0;           ///< middle lines (and planes) that come in full: 0, none
  bool separate = false;  ///< they come before, for calibration alone; else with the frame, and serve its image
  int first_y = 0;        ///< lines before it do not come
};

/// Ellipsoids with sharp edges, and a Gaussian; each coil's profile is a sum of complex exponentials, so that its
/// k-space is a sum of moved transforms. Extents are x, y, z; lengths are voxels.
class ParallelScene {
 public:
  ParallelScene(std::array<int, 3> extents, int channels, double brightness = 1)
      : n(extents), coils(channels), brightness_(brightness), kspace_(all_signals()) {}

  const std::array<int, 3> n;
  const int coils;

  const std::vector<cdouble>& kspace() const { return kspace_; }  ///< [coil, z, y, x]
  /// Images of all of k-space [coil, z, y, x] by their sums, axis by axis.
  static std::vector<cdouble> images(std::vector<cdouble> data, const std::array<int, 3>& n) {
    std::size_t stride = 1;
    for (const int extent : n) {
      const std::vector<cdouble> from = data;
      for (std::size_t i = 0; i < data.size(); ++i) {
        const int r = static_cast<int>(i / stride) % extent;
        const std::size_t start = i - static_cast<std::size_t>(r) * stride;
        data[i] = 0;
        for (int k = 0; k < extent; ++k)
          data[i] += from[start + static_cast<std::size_t>(k) * stride] *
                     std::polar(1.0 / extent, 2 * std::numbers::pi * (r - extent / 2) * (k - extent / 2) / extent);
      }
      stride *= static_cast<std::size_t>(extent);
    }
    return data;
  }
  std::vector<double> root_sum_of_squares() const {
    const auto all = images(kspace(), n);
    std::vector<double> out(static_cast<std::size_t>(n[0] * n[1] * n[2]));
    for (std::size_t i = 0; i < all.size(); ++i) out[i % out.size()] += std::norm(all[i]);
    for (double& v : out) v = std::sqrt(v);
    return out;
  }

  protocol::Header header_of(const Leaving& left, int repetitions = 1, int slices = 1) const {
    HeaderSpec spec{.encoded = n};
    spec.limits = step_limit(n[1]) + (n[2] > 1 ? limit("kspace_encoding_step_2", 0, n[2] - 1, n[2] / 2) : "") +
                  limit("slice", 0, slices - 1, 0) + limit("repetition", 0, repetitions - 1, 0);
    spec.parallel = fmt::format(
        "<accelerationFactor><kspace_encoding_step_1>{}</kspace_encoding_step_1><kspace_encoding_step_2>{}"
        "</kspace_encoding_step_2></accelerationFactor><calibrationMode>{}</calibrationMode>",
        left.ry, left.rz, left.separate ? "separate" : "embedded");
    return header(spec);
  }
  Acquisition line(int y, int z, std::mt19937* random = nullptr, double signal_share = 1) const {
    std::vector<cfloat> data;
    for (int c = 0; c < coils; ++c)
      for (int x = 0; x < n[0]; ++x)
        data.push_back(
            signal_share == 0
                ? cfloat{}
                : cfloat(signal_share * kspace_[static_cast<std::size_t>(((c * n[2] + z) * n[1] + y) * n[0] + x)]));
    if (random != nullptr) {
      const auto added = noise(data.size(), *random);
      for (std::size_t i = 0; i < data.size(); ++i) data[i] += added[i];
    }
    Acquisition a = readout(coils, std::move(data));
    a.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
    a.head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(z);
    return a;
  }
  bool in_band(int y, int z, const Leaving& left) const {
    const auto middle = [&](int i, int extent) {
      const int first = std::max(0, extent / 2 - left.band / 2);
      return i >= first && i < std::min(extent, first + left.band);
    };
    return left.band > 0 && middle(y, n[1]) && middle(z, n[2]);
  }
  bool on_lattice(int y, int z, const Leaving& left) const {
    if (z < left.z0 || (z - left.z0) % left.rz != 0) return false;
    const int from = y - left.y0 - (z - left.z0) / left.rz * left.shift;
    return (from % left.ry + left.ry) % left.ry == 0;
  }
  /// Calibration readouts, where these are separate.
  std::vector<Acquisition> references(const Leaving& left, std::mt19937* random = nullptr) const {
    std::vector<Acquisition> out;
    if (!left.separate) return out;
    for (int z = 0; z < n[2]; ++z)
      for (int y = 0; y < n[1]; ++y)
        if (in_band(y, z, left)) {
          out.push_back(line(y, z, random));
          set_flag(out.back(), kCalibration);
        }
    return out;
  }
  /// One frame; the last readout has its flag.
  std::vector<Acquisition> frame(const Leaving& left, std::mt19937* random = nullptr, double signal_share = 1) const {
    std::vector<Acquisition> out;
    for (int z = 0; z < n[2]; ++z)
      for (int y = left.first_y; y < n[1]; ++y) {
        const bool band = !left.separate && in_band(y, z, left);
        if (!band && !on_lattice(y, z, left)) continue;
        out.push_back(line(y, z, random, signal_share));
        if (band) set_flag(out.back(), kCalibrationAndImaging);
      }
    set_flag(out.back(), kLastInSlice);
    return out;
  }
  std::vector<Acquisition> scan(const Leaving& left) const {
    auto out = references(left);
    for (Acquisition& a : frame(left)) out.push_back(std::move(a));
    return out;
  }

 private:
  std::vector<cdouble> all_signals() const {
    std::vector<cdouble> out(static_cast<std::size_t>(coils * n[0] * n[1] * n[2]));
    const std::size_t points = out.size() / static_cast<std::size_t>(coils);
    for (std::size_t i = 0; i < points; ++i) {
      const int x = static_cast<int>(i) % n[0], y = static_cast<int>(i) / n[0] % n[1],
                z = static_cast<int>(i) / (n[0] * n[1]);
      for (int j = 0; j < 8; ++j) {
        const auto q = frequency(j);
        const cdouble moved = object({at(x, n[0]) - q[0], at(y, n[1]) - q[1], at(z, n[2]) - q[2]});
        for (int c = j / 4; c < coils; c += 2) out[static_cast<std::size_t>(c) * points + i] += weight(c, j) * moved;
      }
    }
    return out;
  }
  static double at(int i, int extent) { return static_cast<double>(i - extent / 2) / extent; }

  cdouble object(const std::array<double, 3>& k) const {
    struct Part {
      double amplitude;
      std::array<double, 3> centre, axes;  // of the field of view
    };
    static const std::vector<Part> parts{{1, {0.01, -0.02, 0}, {0.36, 0.42, 0.38}},
                                         {-0.5, {-0.1, 0.12, 0.05}, {0.12, 0.08, 0.2}},
                                         {0.7, {0.15, -0.1, -0.1}, {0.07, 0.15, 0.12}}};
    cdouble sum = 0;
    for (const Part& p : parts) {
      double radius = 0, turns = 0, size = 1;
      for (std::size_t a = 0; a < 3; ++a) {
        if (n[a] == 1) continue;
        radius += std::pow(p.axes[a] * n[a] * k[a], 2);
        turns += p.centre[a] * n[a] * k[a];
        size *= p.axes[a] * n[a];
      }
      const double s = 2 * std::numbers::pi * std::sqrt(radius);
      double form = n[2] > 1 ? 4 * std::numbers::pi / 3 : std::numbers::pi;
      if (s > 1e-3)
        form = n[2] > 1 ? 4 * std::numbers::pi * (std::sin(s) - s * std::cos(s)) / (s * s * s)
                        : 2 * std::numbers::pi * std::cyl_bessel_j(1.0, s) / s;
      sum += brightness_ * p.amplitude * size * form * std::polar(1.0, -2 * std::numbers::pi * turns);
    }
    return sum;
  }
  std::array<double, 3> frequency(int j) const {
    static const std::array<std::array<double, 3>, 8> directions{{{1.0, 0.15, 0.6},
                                                                  {-0.9, 0.2, -0.6},
                                                                  {0.1, -1.05, 0.65},
                                                                  {-0.2, 0.95, -0.6},
                                                                  {0.75, 0.8, 0.5},
                                                                  {-0.8, 0.65, 0.9},
                                                                  {0.6, -0.75, -0.8},
                                                                  {-0.65, -0.85, 0.4}}};
    std::array<double, 3> q{};
    for (std::size_t a = 0; a < 3; ++a)
      if (n[a] > 1) q[a] = 0.4 * directions[static_cast<std::size_t>(j)][a] / n[a];
    return q;
  }
  /// All terms are in phase at the coil's place, on a ring (about which planes differ).
  cdouble weight(int coil, int j) const {
    const double angle = 2 * std::numbers::pi * coil / coils + 0.3;
    const std::array<double, 3> place{0.4 * std::cos(angle) * n[0], 0.4 * std::sin(angle) * n[1],
                                      0.35 * std::cos(2.4 * coil) * n[2]};
    const auto q = frequency(j);
    return std::polar(0.3, 0.7 * coil - 2 * std::numbers::pi * (q[0] * place[0] + q[1] * place[1] + q[2] * place[2]));
  }

  double brightness_;
  std::vector<cdouble> kspace_;
};

}  // namespace echotrain::testing
