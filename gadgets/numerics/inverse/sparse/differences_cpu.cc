#include <algorithm>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/inverse/sparse/differences_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kRowGrain = 16 * 1024;  // values per piece

ECHOTRAIN_CLONES void subtract_row(const float* a, const float* b, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = a[i] - b[i];
}
ECHOTRAIN_CLONES void add_difference(const float* a, const float* b, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += a[i] - b[i];
}

const float* real_view(const cfloat* values) { return reinterpret_cast<const float*>(values); }
float* real_view(cfloat* values) { return reinterpret_cast<float*>(values); }

/// Calls work(first element of the row, its t, z and y) for each row.
template <class Work>
void for_series_rows(Context& context, const SeriesGrid& g, const Work& work) {
  context.threads().parallel_for(
      g.n[0] * g.n[1] * g.n[2], std::max<std::int64_t>(1, kRowGrain / g.n[3]),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t at[3] = {row / (g.n[1] * g.n[2]), row / g.n[2] % g.n[1], row % g.n[2]};
          work(row * g.n[3], at);
        }
      });
}

}  // namespace

void differences(Context& context, const SeriesGrid& g, const cfloat* x, cfloat* d) {
  const std::int64_t nx = g.n[3], all = g.size();
  for_series_rows(context, g, [&](std::int64_t row, const std::int64_t* at) {
    for (int a = 0; a < g.count; ++a) {
      cfloat* to = d + a * all + row;
      if (g.axes[a] < 3) {
        const cfloat* next = x + row + g.next(g.axes[a], at[g.axes[a]]);
        subtract_row(real_view(next), real_view(x + row), 2 * nx, real_view(to));
      } else {
        subtract_row(real_view(x + row + 1), real_view(x + row), 2 * (nx - 1), real_view(to));
        to[nx - 1] = x[row] - x[row + nx - 1];
      }
    }
  });
}

void differences_adjoint(Context& context, const SeriesGrid& g, const cfloat* d, cfloat* x) {
  const std::int64_t nx = g.n[3], all = g.size();
  for_series_rows(context, g, [&](std::int64_t row, const std::int64_t* at) {
    cfloat* to = x + row;
    std::fill_n(to, nx, cfloat{});
    for (int a = 0; a < g.count; ++a) {
      const cfloat* from = d + a * all + row;
      if (g.axes[a] == 3) {
        to[0] += from[nx - 1] - from[0];
        add_difference(real_view(from), real_view(from + 1), 2 * (nx - 1), real_view(to + 1));
        continue;
      }
      const std::int64_t i = at[g.axes[a]], before = g.before(g.axes[a], i), next = g.next(g.axes[a], i);
      // The first and the last frame have a neighbour in time on one side only.
      for (std::int64_t v = 0; v < nx; ++v) {
        if (before != 0) to[v] += from[before + v];
        if (next != 0) to[v] -= from[v];
      }
    }
  });
}

}  // namespace echotrain::numerics::cpu
