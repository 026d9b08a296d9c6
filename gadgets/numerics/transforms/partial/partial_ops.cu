#include <cmath>

#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/transforms/partial/partial_ops.h"

namespace echotrain::numerics {

/// A row of centred items: its factor, and the places of its elements.
struct CentredRow {
  std::int64_t nx, centred, spectrum;
  float factor;
  const float* of_x;

  ECHOTRAIN_HOST_DEVICE CentredRow(const AxisFactors& f, std::int64_t item, std::int64_t z, std::int64_t y)
      : nx(f.n[2]),
        centred(((item * f.n[0] + z) * f.n[1] + y) * nx),
        spectrum(((item * f.n[0] + in_fft_order(z, f.n[0])) * f.n[1] + in_fft_order(y, f.n[1])) * nx),
        factor(f.values[z] * f.values[f.n[0] + y]),
        of_x(f.values + f.n[0] + f.n[1]) {}
  ECHOTRAIN_HOST_DEVICE std::int64_t in_spectrum(std::int64_t x) const { return spectrum + in_fft_order(x, nx); }
  ECHOTRAIN_HOST_DEVICE float at(std::int64_t x) const { return factor * of_x[x]; }
  /// The element of a transform of n points that holds index i of a centred axis.
  ECHOTRAIN_HOST_DEVICE static std::int64_t in_fft_order(std::int64_t i, std::int64_t n) {
    return i < n / 2 ? i + n - n / 2 : i - n / 2;
  }
};

struct MultipliedAxes {
  static constexpr bool kClones = true;
  AxisFactors factors;
  cfloat* data;
  ECHOTRAIN_EACH void operator()(std::int64_t item, std::int64_t z, std::int64_t y, std::int64_t x) const {
    const CentredRow row(factors, item, z, y);
    store(row.at(x) * load(data + row.centred + x), data + row.centred + x);
  }
};
ECHOTRAIN_MAP(MultipliedAxes, 4)

struct MultipliedRadius {
  cfloat* data;
  std::int64_t nz, ny, nx;
  float per_reach[3];  // z, y, x; 0: an axis that does not count
  float flat, end;     // 1 up to `flat`, then half a cosine down to 0 at `end`
  float sigma;         // above 0: a Gaussian instead
  ECHOTRAIN_EACH static float part(std::int64_t i, std::int64_t n, float per) {
    const float r = per * static_cast<float>(i - n / 2);
    return r * r;
  }
  ECHOTRAIN_EACH void operator()(std::int64_t item, std::int64_t z, std::int64_t y, std::int64_t x) const {
    const float square = part(z, nz, per_reach[0]) + part(y, ny, per_reach[1]) + part(x, nx, per_reach[2]);
    const float r = sqrtf(square);
    float factor = 1;
    if (sigma > 0)
      factor = expf(-square / (2 * sigma * sigma));
    else if (r > end)
      factor = 0;
    else if (r > flat)
      factor = 0.5f + 0.5f * cosf(3.14159265f * (r - flat) / (end - flat));
    cfloat* place = data + ((item * nz + z) * ny + y) * nx + x;
    store(factor * load(place), place);
  }
};
ECHOTRAIN_MAP(MultipliedRadius, 4)

struct PlacedWeighted {
  const cfloat* from;
  AxisFactors factors;
  cfloat* to;
  ECHOTRAIN_EACH void operator()(std::int64_t item, std::int64_t z, std::int64_t y, std::int64_t x) const {
    const CentredRow row(factors, item, z, y);
    store(row.at(x) * load(from + row.centred + x), to + row.in_spectrum(x));
  }
};
ECHOTRAIN_MAP(PlacedWeighted, 4)

struct Projected {
  const cfloat* reference;
  bool real;
  cfloat* image;
  ECHOTRAIN_EACH void operator()(std::int64_t i) const {
    const Complex r = load(reference + i), v = load(image + i);
    const float size = hypotf(r.re, r.im);
    if (!(size > 0)) return;
    const Complex unit{r.re / size, r.im / size};
    store((real ? v.re * unit.re + v.im * unit.im : hypotf(v.re, v.im)) * unit, image + i);
  }
};
ECHOTRAIN_MAP(Projected, 1)

struct KeptAcquired {
  cfloat* data;
  AxisFactors m, filled;
  float scale;
  bool finish;
  cfloat* spectrum;
  ECHOTRAIN_EACH void operator()(std::int64_t item, std::int64_t z, std::int64_t y, std::int64_t x) const {
    const CentredRow row(m, item, z, y);
    cfloat *const d = data + row.centred + x, *const from = spectrum + row.in_spectrum(x);
    const float share = row.at(x);
    Complex value{0, 0};
    if (share >= 1)
      value = load(d);
    else if (share > 0 || CentredRow(filled, item, z, y).at(x) > 0)
      value = share * load(d) + (1 - share) * scale * load(from);
    store(value, finish ? d : from);
  }
};
ECHOTRAIN_MAP(KeptAcquired, 4)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

namespace echotrain::numerics {

void multiply_axes(Context& context, const AxisFactors& factors, std::int64_t batch, cfloat* data) {
  const Extents& n = factors.n;
  map(context, {batch, n[0], n[1], n[2]}, MultipliedAxes{factors, data});
}

void multiply_radius(Context& context, const Extents& n, const std::array<float, 3>& per_reach, float flat, float end,
                     float sigma, std::int64_t batch, cfloat* data) {
  map(context, {batch, n[0], n[1], n[2]},
      MultipliedRadius{data, n[0], n[1], n[2], {per_reach[0], per_reach[1], per_reach[2]}, flat, end, sigma});
}

void place_weighted(Context& context, const cfloat* from, const AxisFactors& factors, std::int64_t batch, cfloat* to) {
  const Extents& n = factors.n;
  map(context, {batch, n[0], n[1], n[2]}, PlacedWeighted{from, factors, to});
}

void project(Context& context, const cfloat* reference, std::int64_t n, bool real, cfloat* image) {
  map(context, {n}, Projected{reference, real, image});
}

void keep_acquired(Context& context, cfloat* data, const AxisFactors& m, const AxisFactors& filled, std::int64_t batch,
                   float scale, bool finish, cfloat* spectrum) {
  const Extents& n = m.n;
  map(context, {batch, n[0], n[1], n[2]}, KeptAcquired{data, m, filled, scale, finish, spectrum});
}

}  // namespace echotrain::numerics
#endif
