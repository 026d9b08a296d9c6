#include "clients/cpp/simulate/subject/coils.h"

#include <cmath>
#include <numbers>

namespace echotrain::client {
namespace {

double dot(const Vec3& a, const Vec3& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

// Two crosses (2D) or tetrahedra (3D) of directions, not quite symmetric so that profiles are complex. Their unit is
// about a third of a cycle per field of view.
constexpr Vec3 kDirections2d[8] = {{1.0, 0.15, 0}, {-0.9, 0.2, 0},  {0.1, -1.05, 0}, {-0.2, 0.95, 0},
                                   {0.75, 0.8, 0}, {-0.8, 0.65, 0}, {0.6, -0.75, 0}, {-0.65, -0.85, 0}};
constexpr Vec3 kDirections3d[8] = {{0.6, 0.6, 0.65}, {0.55, -0.6, -0.6}, {-0.6, 0.65, -0.6}, {-0.65, -0.55, 0.6},
                                   {1.0, 0.1, 0.1},  {-0.4, 0.9, -0.2},  {-0.3, -0.5, -0.8}, {-0.4, -0.45, 0.85}};

// Position of a coil: on a ring around the object, or on a sphere by the golden angle. In units of the field of view.
Vec3 coil_position(int coil, int coils, int dims) {
  if (dims == 2) {
    const double angle = 2 * std::numbers::pi * coil / coils + 0.3;
    return {0.4 * std::cos(angle), 0.4 * std::sin(angle), 0};
  }
  const double z = 1 - (2.0 * coil + 1) / coils;
  const double angle = coil * std::numbers::pi * (3 - std::sqrt(5.0));
  const double ring = std::sqrt(1 - z * z);
  return {0.4 * ring * std::cos(angle), 0.4 * ring * std::sin(angle), 0.4 * z};
}

}  // namespace

CoilSet::CoilSet(int coils, int dims, double matrix, double depth) : coils_(coils) {
  if (coils == 1) {
    frequencies_ = {Vec3{}};
    weights_ = {1.0};
    return;
  }
  for (const Vec3& direction : dims == 2 ? kDirections2d : kDirections3d) {
    const double cycles = 0.33 / matrix;
    frequencies_.push_back({cycles * direction[0], cycles * direction[1], 0.33 / depth * direction[2]});
  }
  weights_.assign(static_cast<std::size_t>(coils) * frequencies_.size(), 0.0);
  double power = 0;
  for (int c = 0; c < coils; ++c) {
    Vec3 position = coil_position(c, coils, dims);
    const Vec3 extent = {matrix, matrix, depth};
    for (std::size_t a = 0; a < 3; ++a) position[a] *= extent[a];
    // Every second coil uses the second four frequencies. All four terms are in phase at the coil's position.
    cdouble at_origin = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const std::size_t f = (c % 2) * 4 + j;
      const cdouble weight = 0.25 * std::polar(1.0, 0.7 * c - 2 * std::numbers::pi * dot(frequencies_[f], position));
      weights_[c * frequencies_.size() + f] = weight;
      at_origin += weight;
    }
    power += std::norm(at_origin);
  }
  for (cdouble& weight : weights_) weight /= std::sqrt(power);
}

cdouble CoilSet::profile(int coil, const Vec3& r) const {
  cdouble sum = 0;
  for (std::size_t j = 0; j < frequencies_.size(); ++j) {
    sum += weight(coil, j) * std::polar(1.0, 2 * std::numbers::pi * dot(frequencies_[j], r));
  }
  return sum;
}

void CoilSet::kspace(const Phantom& phantom, const Vec3& k, std::span<cdouble> signal) const {
  std::fill(signal.begin(), signal.end(), cdouble(0));
  for (std::size_t j = 0; j < frequencies_.size(); ++j) {
    const Vec3& q = frequencies_[j];
    const cdouble shifted = phantom.kspace({k[0] - q[0], k[1] - q[1], k[2] - q[2]});
    for (int c = 0; c < coils_; ++c) signal[c] += weight(c, j) * shifted;
  }
}

NoiseSource::NoiseSource(std::uint64_t seed, double sigma, int coils, bool correlated)
    : generator_(seed), coils_(coils), mix_(static_cast<std::size_t>(coils) * coils, 0.0) {
  for (int c = 0; c < coils; ++c) {
    double* row = &mix_[static_cast<std::size_t>(c) * coils];
    if (!correlated) {
      row[c] = sigma;
      continue;
    }
    // Gains between 0.7 and 1.3; each coil has 0.4 of its neighbour's noise and 0.15 of the next one's.
    const double gain = sigma * (1 + 0.3 * std::sin(1.7 * c + 0.5));
    row[c] = gain;
    if (c >= 1) row[c - 1] = 0.4 * gain;
    if (c >= 2) row[c - 2] = 0.15 * gain;
  }
}

double NoiseSource::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  // 53 random bits each; the first is never 0, so that its logarithm exists.
  const double u = (static_cast<double>(generator_() >> 11) + 1) * 0x1p-53;
  const double v = static_cast<double>(generator_() >> 11) * 0x1p-53;
  const double radius = std::sqrt(-2 * std::log(u));
  spare_ = radius * std::sin(2 * std::numbers::pi * v);
  has_spare_ = true;
  return radius * std::cos(2 * std::numbers::pi * v);
}

void NoiseSource::add(std::span<std::complex<float>> data) {
  const std::size_t samples = data.size() / coils_;
  std::vector<cdouble> white(coils_);
  for (std::size_t s = 0; s < samples; ++s) {
    for (cdouble& w : white) {
      const double real = normal();
      w = {real, normal()};
    }
    for (int c = 0; c < coils_; ++c) {
      cdouble sum = 0;
      for (int other = 0; other <= c; ++other) sum += mix_[static_cast<std::size_t>(c) * coils_ + other] * white[other];
      data[c * samples + s] += std::complex<float>(sum);
    }
  }
}

}  // namespace echotrain::client
