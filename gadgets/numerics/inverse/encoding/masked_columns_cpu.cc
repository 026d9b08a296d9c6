#include "gadgets/numerics/inverse/encoding/masked_columns_cpu.h"

#include <algorithm>
#include <array>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/thread_scratch.h"
#include "gadgets/numerics/transforms/fft/fft_lines_cpu.h"
#include "gadgets/numerics/transforms/fft/fftw_plans_cpu.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kTogether = 16;  // columns that are transformed together: two cache lines of a row

struct MaskedScratch;

/// Rows of one coil: `floats` in each, `stride` floats apart.
struct CoilRows {
  const float* map;
  std::int64_t stride, rows, floats;
};

/// to = map x; `to` has kTogether complex numbers a row.
ECHOTRAIN_CLONES void weigh_rows(const CoilRows& c, const float* x, float* to) {
  for (std::int64_t i = 0; i < c.rows; ++i) {
    const float *a = c.map + i * c.stride, *b = x + i * c.stride;
    float* row = to + i * 2 * kTogether;
    for (std::int64_t j = 0; j < c.floats; j += 2) {
      row[j] = a[j] * b[j] - a[j + 1] * b[j + 1];
      row[j + 1] = a[j] * b[j + 1] + a[j + 1] * b[j];
    }
  }
}

/// y = y + conj(map) from, or conj(map) from.
ECHOTRAIN_CLONES void join_rows(const CoilRows& c, const float* from, bool add, float* y) {
  for (std::int64_t i = 0; i < c.rows; ++i) {
    const float *a = c.map + i * c.stride, *b = from + i * 2 * kTogether;
    float* row = y + i * c.stride;
    for (std::int64_t j = 0; j < c.floats; j += 2) {
      const float re = a[j] * b[j] + a[j + 1] * b[j + 1], im = a[j] * b[j + 1] - a[j + 1] * b[j];
      row[j] = add ? row[j] + re : re;
      row[j + 1] = add ? row[j + 1] + im : im;
    }
  }
}

ECHOTRAIN_CLONES void scale_lines_by(const float* factors, std::int64_t n, std::int64_t distance, float* lines) {
  for (std::int64_t c = 0; c < kTogether; ++c)
    for (std::int64_t i = 0; i < n; ++i) {
      lines[2 * (c * distance + i)] *= factors[i];
      lines[2 * (c * distance + i) + 1] *= factors[i];
    }
}

const float* as_floats(const cfloat* values) { return reinterpret_cast<const float*>(values); }
float* as_floats(cfloat* values) { return reinterpret_cast<float*>(values); }

}  // namespace

void masked_columns(Context& context, const MaskedGrid& g, const float* factors, const GridImages& coils,
                    const cfloat* x, cfloat* y) {
  const std::int64_t rows = g.image[1], width = g.image[2], points = g.padded[1], middle = rows / 2;
  const std::int64_t distance = (points + 7) / 8 * 8 + 8;
  const auto scratch = [=] {
    auto* lines = reinterpret_cast<cfloat*>(
        thread_scratch<MaskedScratch>(static_cast<std::size_t>(2 * kTogether * (2 * distance + rows))));
    return std::array<cfloat*, 3>{lines, lines + kTogether * distance, lines + 2 * kTogether * distance};
  };
  FftwPlans& plans = context.cache<FftwPlans>();
  plans.trim();
  const auto any = scratch();
  const FftwPlans::Plan forward = plans.get(points, kTogether, distance, Direction::forward, any[0], any[1]),
                        inverse = plans.get(points, kTogether, distance, Direction::inverse, any[1], any[0]);
  context.threads().parallel_for((width + kTogether - 1) / kTogether, 1, [&](std::int64_t begin, std::int64_t end) {
    const auto [lines, spectra, tile] = scratch();
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t first = t * kTogether, columns = std::min(kTogether, width - first);
      for (std::int64_t c = 0; c < coils.batch; ++c) {
        const CoilRows of{as_floats(coils.maps + c * rows * width + first), 2 * width, rows, 2 * columns};
        weigh_rows(of, as_floats(x + first), as_floats(tile));
        // The image's first half is at the end of the transform.
        for (std::int64_t l = 0; l < kTogether; ++l)
          std::fill(lines + l * distance + (l < columns ? rows - middle : 0),
                    lines + l * distance + points - (l < columns ? middle : 0), cfloat{});
        columns_to_lines(tile, kTogether, middle, columns, lines + points - middle, distance);
        columns_to_lines(tile + middle * kTogether, kTogether, rows - middle, columns, lines, distance);
        FftwPlans::execute(forward, lines, spectra);
        scale_lines_by(factors, points, distance, as_floats(spectra));
        FftwPlans::execute(inverse, spectra, lines);
        lines_to_columns(lines + points - middle, distance, middle, columns, tile, kTogether);
        lines_to_columns(lines, distance, rows - middle, columns, tile + middle * kTogether, kTogether);
        join_rows(of, as_floats(tile), c > 0, as_floats(y + first));
      }
    }
  });
}

}  // namespace echotrain::numerics::cpu
