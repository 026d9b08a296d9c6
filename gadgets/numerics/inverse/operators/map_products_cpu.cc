#include <cmath>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/inverse/operators/map_products_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kGrain = 16 * 1024;  // voxels per piece

/// to = to + a b, or a b; with `conjugated` conj(a). All are n complex numbers.
template <bool conjugated>
ECHOTRAIN_INLINE void add_products(const float* a, const float* b, float* to, std::int64_t n, bool add) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float are = a[2 * i], aim = conjugated ? -a[2 * i + 1] : a[2 * i + 1], bre = b[2 * i], bim = b[2 * i + 1];
    const float re = are * bre - aim * bim, im = are * bim + aim * bre;
    to[2 * i] = add ? to[2 * i] + re : re;
    to[2 * i + 1] = add ? to[2 * i + 1] + im : im;
  }
}

ECHOTRAIN_CLONES void add_product(const float* a, const float* b, float* to, std::int64_t n, bool add) {
  add_products<false>(a, b, to, n, add);
}
ECHOTRAIN_CLONES void add_conjugate_product(const float* a, const float* b, float* to, std::int64_t n, bool add) {
  add_products<true>(a, b, to, n, add);
}

const float* floats(const cfloat* values) { return reinterpret_cast<const float*>(values); }
float* floats(cfloat* values) { return reinterpret_cast<float*>(values); }

}  // namespace

void spread_to_coils(Context& context, const MapProducts& p, const cfloat* x, cfloat* of_coils) {
  context.threads().parallel_for(p.voxels, kGrain / p.coils + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t f = 0; f < p.frames; ++f)
      for (std::int64_t c = 0; c < p.coils; ++c)
        for (std::int64_t i = 0; i < p.sets; ++i)
          add_product(floats(p.maps + (i * p.coils + c) * p.voxels + begin),
                      floats(x + (f * p.sets + i) * p.voxels + begin),
                      floats(of_coils + (f * p.coils + c) * p.voxels + begin), end - begin, i > 0);
  });
}

void gather_from_coils(Context& context, const MapProducts& p, const cfloat* of_coils, cfloat* x) {
  context.threads().parallel_for(p.voxels, kGrain / p.coils + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t f = 0; f < p.frames; ++f)
      for (std::int64_t i = 0; i < p.sets; ++i)
        for (std::int64_t c = 0; c < p.coils; ++c)
          add_conjugate_product(floats(p.maps + (i * p.coils + c) * p.voxels + begin),
                                floats(of_coils + (f * p.coils + c) * p.voxels + begin),
                                floats(x + (f * p.sets + i) * p.voxels + begin), end - begin, c > 0);
  });
}

void join_sets(Context& context, const cfloat* x, std::int64_t sets, std::int64_t voxels, cfloat* joined) {
  context.threads().parallel_for(voxels, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t v = begin; v < end; ++v) {
      float power = 0;
      for (std::int64_t i = 0; i < sets; ++i) power += std::norm(x[i * voxels + v]);
      const float first = std::abs(x[v]), size = std::sqrt(power);
      joined[v] = first > 0 ? size / first * x[v] : cfloat(size);
    }
  });
}

}  // namespace echotrain::numerics::cpu
