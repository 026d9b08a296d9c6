#include <cmath>

#include "gadgets/numerics/transforms/partial/partial_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kGrain = 16 * 1024;  // elements per piece

/// Calls work(item, z, y, first element of the centred row) for the rows of a batch.
template <class Work>
void for_rows_of(Context& context, const Extents& n, std::int64_t batch, const Work& work) {
  const std::int64_t rows = n[0] * n[1];
  context.threads().parallel_for(batch * rows, std::max<std::int64_t>(1, kGrain / n[2]),
                                 [&](std::int64_t begin, std::int64_t end) {
                                   for (std::int64_t r = begin; r < end; ++r)
                                     work(r / rows, r % rows / n[1], r % n[1], r * n[2]);
                                 });
}

/// The first element of a row of a batch in FFT order.
std::int64_t row_in_fft_order(const Extents& n, std::int64_t item, std::int64_t z, std::int64_t y) {
  return ((item * n[0] + in_fft_order(z, n[0])) * n[1] + in_fft_order(y, n[1])) * n[2];
}

}  // namespace

void multiply_axes(Context& context, const AxisFactors& factors, std::int64_t batch, cfloat* data) {
  for_rows_of(context, factors.n, batch, [&](std::int64_t, std::int64_t z, std::int64_t y, std::int64_t row) {
    for (std::int64_t x = 0; x < factors.n[2]; ++x) data[row + x] *= factors.at(z, y, x);
  });
}

void place_weighted(Context& context, const cfloat* from, const AxisFactors& factors, std::int64_t batch, cfloat* to) {
  const Extents& n = factors.n;
  for_rows_of(context, n, batch, [&](std::int64_t item, std::int64_t z, std::int64_t y, std::int64_t row) {
    cfloat* there = to + row_in_fft_order(n, item, z, y);
    for (std::int64_t x = 0; x < n[2]; ++x) there[in_fft_order(x, n[2])] = from[row + x] * factors.at(z, y, x);
  });
}

void project(Context& context, const cfloat* reference, std::int64_t n, bool real, cfloat* image) {
  context.threads().parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const cfloat r = reference[i], v = image[i];
      const float size = std::hypot(r.real(), r.imag());
      if (!(size > 0)) continue;
      const cfloat unit(r.real() / size, r.imag() / size);
      const float along = real ? v.real() * unit.real() + v.imag() * unit.imag() : std::hypot(v.real(), v.imag());
      image[i] = along * unit;
    }
  });
}

void keep_acquired(Context& context, cfloat* data, const AxisFactors& m, const AxisFactors& filled, std::int64_t batch,
                   float scale, bool finish, cfloat* spectrum) {
  const Extents& n = m.n;
  for_rows_of(context, n, batch, [&](std::int64_t item, std::int64_t z, std::int64_t y, std::int64_t row) {
    cfloat* there = spectrum + row_in_fft_order(n, item, z, y);
    for (std::int64_t x = 0; x < n[2]; ++x) {
      cfloat& from = there[in_fft_order(x, n[2])];
      cfloat& d = data[row + x];
      const float share = m.at(z, y, x);
      const cfloat value = share >= 1                            ? d
                           : share > 0 || filled.at(z, y, x) > 0 ? share * d + (1 - share) * scale * from
                                                                 : cfloat{};
      (finish ? d : from) = value;
    }
  });
}

}  // namespace echotrain::numerics::cpu
