// A Gaussian blob has an exact k-space, and trajectories to sample it on.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {

/// rho(r) = exp(-|r - centre|^2 / (2 sigma^2)), r in pixels from voxel floor(n/2); components x, y, z.
struct Blob {
  int dims = 2;
  std::array<double, 3> centre{0, 0, 0};
  double sigma = 2;

  /// d(k) = sum_r rho(r) exp(-2 pi i k.r), k in cycles/pixel. The sum equals the integral to exp(-2 pi^2 sigma^2 / 4).
  cdouble kspace(const double* k) const {
    double square = 0, phase = 0;
    for (int a = 0; a < dims; ++a) {
      square += k[a] * k[a];
      phase += k[a] * centre[static_cast<std::size_t>(a)];
    }
    constexpr double kPi = std::numbers::pi;
    return std::pow(2 * kPi * sigma * sigma, dims / 2.0) *
           std::polar(std::exp(-2 * kPi * kPi * sigma * sigma * square), -2 * kPi * phase);
  }
  double at(double x, double y, double z) const {
    double square = std::pow(x - centre[0], 2) + std::pow(y - centre[1], 2);
    if (dims == 3) square += std::pow(z - centre[2], 2);
    return std::exp(-square / (2 * sigma * sigma));
  }
  /// [z, y, x] on a matrix of x, y, z voxels.
  std::vector<double> image(const std::array<int, 3>& n) const {
    std::vector<double> out;
    for (int z = 0; z < n[2]; ++z)
      for (int y = 0; y < n[1]; ++y)
        for (int x = 0; x < n[0]; ++x) out.push_back(at(x - n[0] / 2, y - n[1] / 2, z - n[2] / 2));
    return out;
  }
};

/// Readouts in cycles/pixel: [readout][sample * dims]; weights, where given, have one number per sample.
struct Path {
  int dims = 2;
  std::vector<std::vector<double>> k;
  std::vector<std::vector<double>> weights;
};

/// Spokes through the centre, `samples` points from -1/2 to 1/2 (the end left out), turned by `angle` each.
inline Path radial(int spokes, int samples, double angle) {
  Path path;
  for (int i = 0; i < spokes; ++i) {
    std::vector<double> k;
    for (int s = 0; s < samples; ++s) {
      const double r = (s - samples / 2) / static_cast<double>(samples);
      k.insert(k.end(), {r * std::cos(i * angle), r * std::sin(i * angle)});
    }
    path.k.push_back(std::move(k));
  }
  return path;
}
inline Path radial(int spokes, int samples) { return radial(spokes, samples, std::numbers::pi / spokes); }
inline Path golden_radial(int spokes, int samples) {
  return radial(spokes, samples, std::numbers::pi * (std::sqrt(5.0) - 1) / 2);
}

/// Archimedean arms at constant angular speed. An arm's sample stands for 2 pi k dk / arms, by the area of its shell.
inline Path spiral(int arms, int samples, double turns) {
  constexpr double kPi = std::numbers::pi;
  Path path;
  for (int i = 0; i < arms; ++i) {
    std::vector<double> k, w;
    for (int s = 0; s < samples; ++s) {
      const double r = 0.5 * (s + 0.5) / samples, angle = 2 * kPi * (turns * r / 0.5 + i / static_cast<double>(arms));
      k.insert(k.end(), {r * std::cos(angle), r * std::sin(angle)});
      w.push_back(2 * kPi * r * (0.5 / samples) / arms);
    }
    path.k.push_back(std::move(k));
    path.weights.push_back(std::move(w));
  }
  return path;
}

/// Diameters of a ball, spread evenly over directions (Fibonacci lattice on the half sphere).
inline Path kooshball(int spokes, int samples) {
  Path path;
  path.dims = 3;
  for (int i = 0; i < spokes; ++i) {
    const double z = (i + 0.5) / spokes, rho = std::sqrt(1 - z * z),
                 angle = i * std::numbers::pi * (3 - std::sqrt(5.0));
    std::vector<double> k;
    for (int s = 0; s < samples; ++s) {
      const double r = (s - samples / 2) / static_cast<double>(samples);
      k.insert(k.end(), {r * rho * std::cos(angle), r * rho * std::sin(angle), r * z});
    }
    path.k.push_back(std::move(k));
  }
  return path;
}

/// One frame of blobs (one per coil) along a path; trajectory numbers are k times `unit[a]`.
inline std::vector<Acquisition> sample(const Path& path, const std::vector<Blob>& coils,
                                       const std::array<double, 3>& unit = {1, 1, 1}) {
  std::vector<Acquisition> scan;
  const auto dims = static_cast<std::size_t>(path.dims);
  for (std::size_t i = 0; i < path.k.size(); ++i) {
    const std::vector<double>& k = path.k[i];
    const std::size_t samples = k.size() / dims;
    std::vector<cfloat> data;
    for (const Blob& blob : coils)
      for (std::size_t s = 0; s < samples; ++s) data.emplace_back(blob.kspace(&k[s * dims]));
    std::vector<float> trajectory;
    for (std::size_t s = 0; s < samples; ++s) {
      for (std::size_t a = 0; a < dims; ++a) trajectory.push_back(static_cast<float>(k[s * dims + a] * unit[a]));
      if (!path.weights.empty()) trajectory.push_back(static_cast<float>(path.weights[i][s]));
    }
    scan.push_back(readout(static_cast<int>(coils.size()), std::move(data), std::move(trajectory)));
    scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i);
  }
  set_flag(scan.back(), kLastInSlice);
  return scan;
}

/// The largest |image - truth| and the value at voxel floor(n/2) of a complex image's channel.
inline double largest_error(const std::vector<cfloat>& image, std::size_t channel, const std::vector<double>& truth) {
  double largest = 0;
  for (std::size_t i = 0; i < truth.size(); ++i)
    largest = std::max(largest, std::abs(cdouble(image[channel * truth.size() + i]) - truth[i]));
  return largest;
}

}  // namespace echotrain::testing
