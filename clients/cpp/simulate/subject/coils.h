// A simulated coil has exact k-space, and noise.
#pragma once

#include <complex>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "clients/cpp/simulate/subject/phantom.h"

namespace echotrain::client {

/// Smooth coil profiles, each a sum of at most 4 complex exponentials: c(r) = sum_j a_j exp(2 pi i q_j.r). Multiplying
/// an object by one moves its k-space, so d_c(k) = sum_j a_cj rho_hat(k - q_j) is exact. The frequencies q_j are shared
/// by the coils, so the cost does not grow with their number. The root sum of squares at the origin is 1; a single coil
/// is 1 everywhere.
class CoilSet {
 public:
  CoilSet(int coils, int dims, double matrix) : CoilSet(coils, dims, matrix, matrix) {}
  CoilSet(int coils, int dims, double matrix, double depth);  ///< `depth`: pixels along z of the same extent

  int coils() const { return coils_; }
  const std::vector<Vec3>& frequencies() const { return frequencies_; }  ///< [cycles/pixel]
  cdouble weight(int coil, std::size_t frequency) const { return weights_[coil * frequencies_.size() + frequency]; }
  cdouble profile(int coil, const Vec3& r) const;  ///< r in pixels from the origin
  /// Returns the signal of every coil at `k`; `signal` has one element per coil.
  void kspace(const Phantom& phantom, const Vec3& k, std::span<cdouble> signal) const;

 private:
  int coils_;
  std::vector<Vec3> frequencies_;
  std::vector<cdouble> weights_;  // [coil, frequency]
};

/// Complex Gaussian noise: the same values on every platform for one seed (Box and Muller over std::mt19937_64, whose
/// output the C++ standard fixes; the standard library's own distributions differ between compilers).
class NoiseSource {
 public:
  /// `sigma` is the standard deviation of the real and of the imaginary part. Correlated coils differ in gain and share
  /// part of their neighbour's noise.
  NoiseSource(std::uint64_t seed, double sigma, int coils, bool correlated);

  double normal();
  /// Adds noise to data [coil, sample].
  void add(std::span<std::complex<float>> data);
  /// Returns the mix: noise is mix * white noise; lower triangular, [coil, coil], sigma included.
  const std::vector<double>& mix() const { return mix_; }

 private:
  std::mt19937_64 generator_;
  int coils_;
  std::vector<double> mix_;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace echotrain::client
