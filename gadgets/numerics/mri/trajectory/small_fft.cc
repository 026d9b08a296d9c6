#include "gadgets/numerics/mri/trajectory/small_fft.h"

#include <numbers>
#include <stdexcept>
#include <utility>

namespace echotrain::numerics {

std::size_t SmallFft::length_for(std::size_t n) {
  std::size_t out = 1;
  while (out < n) out *= 2;
  return out;
}

SmallFft::SmallFft(std::size_t n) : n_(n) {
  if (n == 0 || length_for(n) != n) throw std::invalid_argument("SmallFft takes a power of two");
  for (std::size_t m = 0; m < n / 2; ++m)
    turns_.push_back(std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(m) / static_cast<double>(n)));
}

void SmallFft::operator()(std::vector<Value>& values, bool inverse) const {
  if (values.size() != n_) throw std::invalid_argument("SmallFft: wrong length");
  for (std::size_t i = 1, j = 0; i < n_; ++i) {  // bits in reverse order
    std::size_t bit = n_ >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(values[i], values[j]);
  }
  for (std::size_t half = 1; half < n_; half *= 2) {
    const std::size_t stride = n_ / (2 * half);
    for (std::size_t begin = 0; begin < n_; begin += 2 * half)
      for (std::size_t m = 0; m < half; ++m) {
        const Value turn = inverse ? std::conj(turns_[m * stride]) : turns_[m * stride];
        // The product is written out, because that of std::complex checks for infinities.
        const Value b = values[begin + half + m];
        const Value product{b.real() * turn.real() - b.imag() * turn.imag(),
                            b.real() * turn.imag() + b.imag() * turn.real()};
        values[begin + half + m] = values[begin + m] - product;
        values[begin + m] += product;
      }
  }
}

}  // namespace echotrain::numerics
