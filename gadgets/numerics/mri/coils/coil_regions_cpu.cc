#include <algorithm>
#include <cmath>
#include <vector>

#include "gadgets/numerics/mri/coils/coil_regions_ops.h"

namespace echotrain::numerics::cpu {

void cut_region(Context& context, const CoilRegion& region, const double* factors) {
  const Extents& n = region.n;
  const double *of_y = factors + n[0], *of_x = of_y + n[1];
  cfloat* next = region.to;
  for (std::int64_t c = 0; c < region.coils; ++c)
    for (std::int64_t z = 0; z < n[0]; ++z) {
      context.check_stop();
      for (std::int64_t y = 0; y < n[1]; ++y) {
        const double row = factors[z] * of_y[y];
        const cfloat* line = region.from + region.source(c, z, y, 0);
        for (std::int64_t x = 0; x < n[2]; ++x) *next++ = line[x] * static_cast<float>(row * of_x[x]);
      }
    }
}

void unit_maps(Context& context, const CoilRegion& region) {
  const Extents& n = region.n;
  context.threads().parallel_for(n[0] * n[1], 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> factors(static_cast<std::size_t>(n[2]));
    for (std::int64_t row = begin; row < end; ++row) {
      const auto line = [&](std::int64_t c) { return region.from + region.source(c, row / n[1], row % n[1], 0); };
      std::fill(factors.begin(), factors.end(), 0.0f);
      for (std::int64_t c = 0; c < region.coils; ++c)
        for (std::int64_t x = 0; x < n[2]; ++x) factors[static_cast<std::size_t>(x)] += std::norm(line(c)[x]);
      for (float& f : factors) f = f > 1e-12f ? 1 / std::sqrt(f) : 0.0f;
      for (std::int64_t c = 0; c < region.coils; ++c) {
        cfloat* out = region.to + (c * n[0] * n[1] + row) * n[2];
        for (std::int64_t x = 0; x < n[2]; ++x) out[x] = line(c)[x] * factors[static_cast<std::size_t>(x)];
      }
    }
  });
}

}  // namespace echotrain::numerics::cpu
