// CPU.SP and CPU.DP. Compiled with fast mathematics, so that the compiler turns the loops into vectors with its vector
// library: today's counterpart of the seed's compiler flags.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "gadgets/numerics/core/clones.h"
#include "tests/seeds/seed_stone.h"

namespace echotrain::seed {
namespace {

constexpr std::int64_t kTileBytes = 20 << 10;  // of the L1 cache

template <class T>
ECHOTRAIN_INLINE void sum_tiles(const Samples<T>& samples, std::int64_t matrix, std::int64_t begin, std::int64_t end,
                                T* re, T* im) {
  constexpr std::int64_t kTile = kTileBytes / static_cast<std::int64_t>(5 * sizeof(T));
  const T *kx = samples.kx.data(), *ky = samples.ky.data(), *kz = samples.kz.data();
  const T *mu_re = samples.re.data(), *mu_im = samples.im.data();
  std::fill(re + begin, re + end, T(0));
  std::fill(im + begin, im + end, T(0));
  for (std::int64_t first = 0; first < samples.size(); first += kTile) {
    const std::int64_t last = std::min(first + kTile, samples.size());
    for (std::int64_t n = begin; n < end; ++n) {
      const T x = static_cast<T>(n % matrix - matrix / 2), y = static_cast<T>(n / matrix % matrix - matrix / 2);
      const T z = static_cast<T>(n / matrix / matrix - matrix / 2);
      T sum_re = 0, sum_im = 0;
#pragma GCC unroll 4
      for (std::int64_t m = first; m < last; ++m) {
        const T angle = 2 * std::numbers::pi_v<T> * (kx[m] * x + ky[m] * y + kz[m] * z);
        // Two cosines, because the vector library has no function for sine and cosine of one angle that compilers use.
        const T cosine = std::cos(angle), sine = std::cos(angle - std::numbers::pi_v<T> / 2);
        sum_re += mu_re[m] * cosine - mu_im[m] * sine;
        sum_im += mu_im[m] * cosine + mu_re[m] * sine;
      }
      re[n] += sum_re;
      im[n] += sum_im;
    }
  }
}

}  // namespace

ECHOTRAIN_CLONES void cpu_fhd(const Samples<float>& samples, std::int64_t matrix, std::int64_t begin, std::int64_t end,
                              float* re, float* im) {
  sum_tiles(samples, matrix, begin, end, re, im);
}

ECHOTRAIN_CLONES void cpu_fhd(const Samples<double>& samples, std::int64_t matrix, std::int64_t begin, std::int64_t end,
                              double* re, double* im) {
  sum_tiles(samples, matrix, begin, end, re, im);
}

}  // namespace echotrain::seed
