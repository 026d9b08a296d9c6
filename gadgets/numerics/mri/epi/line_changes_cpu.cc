#include <algorithm>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/mri/epi/line_changes_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kBlock = 32, kRows = 4;  // points, and rows of one line, whose sums stay in registers

/// to[r, x] = sum_s weights[s, x] from[r, s] for the kBlock points that start at `weights` and `to`, and at most kRows
/// `rows`. Rows of weights are `stride` long, those of `from` `samples`, those of `to` `n`. Each row is summed by
/// itself, in the order of its samples.
ECHOTRAIN_CLONES void combine_block(const float* weights, std::int64_t stride, const float* from, std::int64_t samples,
                                    std::int64_t rows, float* to, std::int64_t n) {
  float re[kRows][kBlock] = {}, im[kRows][kBlock] = {};
  const float* of[kRows];  // missing rows repeat the last one, and their sums are not used
  for (std::int64_t r = 0; r < kRows; ++r) of[r] = from + 2 * samples * std::min(r, rows - 1);
  for (std::int64_t s = 0; s < samples; ++s) {
    const float* row = weights + s * stride;
    for (std::int64_t r = 0; r < kRows; ++r) {
      const float a = of[r][2 * s], b = of[r][2 * s + 1];
      for (std::int64_t x = 0; x < kBlock; ++x) {
        re[r][x] += a * row[x];
        im[r][x] += b * row[x];
      }
    }
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t x = 0; x < kBlock; ++x) {
      to[2 * (r * n + x)] = re[r][x];
      to[2 * (r * n + x) + 1] = im[r][x];
    }
}

void combine_rest(const float* weights, std::int64_t stride, const cfloat* from, std::int64_t samples, std::int64_t n,
                  cfloat* to) {
  for (std::int64_t x = 0; x < n; ++x) {
    cfloat sum = 0;
    for (std::int64_t s = 0; s < samples; ++s) sum += weights[s * stride + x] * from[s];
    to[x] = sum;
  }
}

const float* floats(const cfloat* data) { return reinterpret_cast<const float*>(data); }

}  // namespace

void combine_samples(Context& context, HostView<const std::int32_t> sets, DeviceView<const float> weights,
                     DeviceView<const cfloat> from, DeviceView<cfloat> to) {
  constexpr std::int64_t kLeast = 64 * 1024;  // products that make a piece worth a thread
  const std::int64_t coils = from.shape()[1], samples = from.shape()[2], n = to.shape()[2];
  const std::int64_t groups = (coils + kRows - 1) / kRows;  // groups of a line's coils
  context.threads().parallel_for(
      from.shape()[0] * groups, std::max<std::int64_t>(1, kLeast / (kRows * samples * n)),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t group = begin; group < end; ++group) {
          const std::int64_t line = group / groups, first = group % groups * kRows;
          const std::int64_t rows = std::min(kRows, coils - first);
          const float* matrix = weights.data() + sets.data()[line] * samples * n;
          const cfloat* source = from.data() + (line * coils + first) * samples;
          cfloat* target = to.data() + (line * coils + first) * n;
          std::int64_t x = 0;
          for (; x + kBlock <= n; x += kBlock)
            combine_block(matrix + x, n, floats(source), samples, rows, reinterpret_cast<float*>(target + x), n);
          for (std::int64_t r = 0; r < rows; ++r)
            combine_rest(matrix + x, n, source + r * samples, samples, n - x, target + r * n + x);
        }
      });
}

}  // namespace echotrain::numerics::cpu
