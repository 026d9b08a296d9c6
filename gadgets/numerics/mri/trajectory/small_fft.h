// SmallFft is a Fourier transform in float64 for short computations on the host, such as those on trajectories.
#pragma once

#include <complex>
#include <cstddef>
#include <vector>

namespace echotrain::numerics {

/// Transforms of one length, a power of two: X[m] = sum_i x[i] exp(-2 pi i m i / n). Thread-safe.
class SmallFft {
 public:
  using Value = std::complex<double>;
  explicit SmallFft(std::size_t n);  ///< throws std::invalid_argument unless n is a power of two
  std::size_t size() const { return n_; }
  /// Transforms in place. `inverse`: the sign of the exponent changes; nothing is scaled.
  void operator()(std::vector<Value>& values, bool inverse = false) const;
  /// The least power of two that is not below `n`.
  static std::size_t length_for(std::size_t n);

 private:
  std::size_t n_;
  std::vector<Value> turns_;  // exp(-2 pi i m / n) of the first half
};

}  // namespace echotrain::numerics
