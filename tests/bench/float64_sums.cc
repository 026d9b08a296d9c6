#include "tests/bench/float64_sums.h"

#include <cmath>
#include <numbers>

#include "gadgets/numerics/core/clones.h"

namespace echotrain::bench {
namespace {

using cdouble = std::complex<double>;

constexpr int kTogether = 8;        // samples whose products are added in one pass over a plane
constexpr std::int64_t kSlabs = 4;  // of a plane, which threads share

/// exp(2 pi i k (i - n/2)) for i < n, each from the one before: good to n roundings.
void waves(double k, std::int64_t n, cdouble factor, double* re, double* im) {
  cdouble value = factor * std::polar(1.0, -2 * std::numbers::pi * k * static_cast<double>(n / 2));
  const cdouble step = std::polar(1.0, 2 * std::numbers::pi * k);
  for (std::int64_t i = 0; i < n; ++i, value *= step) re[i] = value.real(), im[i] = value.imag();
}

/// sum[x] += sum over kTogether samples of z x[x].
ECHOTRAIN_CLONES void add_line(const double* x_re, const double* x_im, const double* z_re, const double* z_im,
                               std::int64_t n, double* sum_re, double* sum_im) {
  for (std::int64_t x = 0; x < n; ++x) {
    double re = sum_re[x], im = sum_im[x];
#pragma GCC unroll 8
    for (int j = 0; j < kTogether; ++j) {
      const double a = x_re[j * n + x], b = x_im[j * n + x];
      re += a * z_re[j] - b * z_im[j];
      im += a * z_im[j] + b * z_re[j];
    }
    sum_re[x] = re;
    sum_im[x] = im;
  }
}

/// The rows first_row .. last_row - 1 along z of one plane, to `to`.
void add_rows(const std::vector<double>& k, const std::vector<numerics::cfloat>& values, std::int64_t n,
              std::int64_t line, std::size_t first_row, std::size_t last_row, cdouble* to) {
  const auto size = static_cast<std::size_t>(n), count = values.size();
  std::vector<double> sum_re(size * size), sum_im(size * size), re(size), im(size);
  std::vector<double> x_re(size * kTogether), x_im(x_re.size()), z_re(x_re.size()), z_im(x_re.size());
  for (std::size_t first = 0; first < count; first += kTogether) {
    for (std::size_t j = 0; j < kTogether; ++j) {
      const std::size_t s = first + j;
      if (s >= count) {
        std::fill_n(x_re.begin() + static_cast<std::ptrdiff_t>(j * size), size, 0.0);
        std::fill_n(x_im.begin() + static_cast<std::ptrdiff_t>(j * size), size, 0.0);
        continue;
      }
      const cdouble turned =
          cdouble(values[s]) * std::polar(1.0, 2 * std::numbers::pi * k[3 * s + 1] * static_cast<double>(line - n / 2));
      waves(k[3 * s], n, turned, x_re.data() + j * size, x_im.data() + j * size);
      waves(k[3 * s + 2], n, 1, re.data(), im.data());
      for (std::size_t z = 0; z < size; ++z) z_re[z * kTogether + j] = re[z], z_im[z * kTogether + j] = im[z];
    }
    for (std::size_t z = first_row; z < last_row; ++z)
      add_line(x_re.data(), x_im.data(), z_re.data() + z * kTogether, z_im.data() + z * kTogether, n,
               sum_re.data() + z * size, sum_im.data() + z * size);
  }
  for (std::size_t i = first_row * size; i < last_row * size; ++i) to[i] = {sum_re[i], sum_im[i]};
}

}  // namespace

std::vector<std::vector<cdouble>> planes_of_lines(numerics::ThreadPool& threads, const std::vector<double>& coordinates,
                                                  const std::vector<numerics::cfloat>& values, std::int64_t n,
                                                  const std::vector<std::int64_t>& lines) {
  std::vector<std::vector<cdouble>> out(lines.size(), std::vector<cdouble>(static_cast<std::size_t>(n * n)));
  threads.parallel_for(static_cast<std::int64_t>(lines.size()) * kSlabs, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto which = static_cast<std::size_t>(i / kSlabs);
      const std::int64_t slab = i % kSlabs;
      add_rows(coordinates, values, n, lines[which], static_cast<std::size_t>(slab * n / kSlabs),
               static_cast<std::size_t>((slab + 1) * n / kSlabs), out[which].data());
    }
  });
  return out;
}

}  // namespace echotrain::bench
