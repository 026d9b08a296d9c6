#include <algorithm>
#include <vector>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/mri/parallel/parallel_ops.h"

namespace echotrain::numerics::cpu {

ECHOTRAIN_CLONES void add_correction(const float* kernel, const float* from, float sign, std::int64_t coils,
                                     float* to) {
  constexpr std::int64_t n = kHybridLanes;
  for (std::int64_t c = 0; c < coils; ++c) {
    float re[n] = {}, im[n] = {};
    for (std::int64_t other = 0; other < coils; ++other, kernel += 2 * n) {
      const float* f = from + other * 2 * n;
      for (std::int64_t i = 0; i < n; ++i) {
        re[i] += kernel[i] * f[i] - kernel[n + i] * f[n + i];
        im[i] += kernel[i] * f[n + i] + kernel[n + i] * f[i];
      }
    }
    for (std::int64_t i = 0; i < n; ++i) {
      to[c * 2 * n + i] += sign * re[i];
      to[c * 2 * n + n + i] += sign * im[i];
    }
  }
}

void correct_lines(Context& context, const CorrectionWork& work) {
  constexpr std::int64_t n = kHybridLanes;
  const std::int64_t blocks = (work.columns + n - 1) / n, per_source = work.coils * work.coils * 2 * n;
  context.threads().parallel_for(blocks * work.count, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> from(static_cast<std::size_t>(work.coils * 2 * n)), to(from.size());
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t block = i / work.count, row = i % work.count, width = std::min(n, work.columns - block * n);
      const auto take = [&](std::int64_t acquired, std::vector<float>& lanes) {
        for (std::int64_t c = 0; c < work.coils; ++c)
          for (std::int64_t x = 0; x < width; ++x) {
            const cfloat value = work.half[(c * work.rows + acquired) * work.columns + block * n + x];
            lanes[static_cast<std::size_t>(c * 2 * n + x)] = value.real();
            lanes[static_cast<std::size_t>(c * 2 * n + n + x)] = value.imag();
          }
      };
      std::fill(to.begin(), to.end(), 0.0f);
      if (work.own[row] >= 0) take(work.own[row], to);
      for (std::int32_t t = work.first[row]; t < work.first[row + 1]; ++t) {
        const LineCorrections::Term& term = work.terms[t];
        take(term.row, from);
        add_correction(work.kernels + (block * work.sources + term.source) * per_source, from.data(), term.sign,
                       work.coils, to.data());
      }
      for (std::int64_t c = 0; c < work.coils; ++c)
        for (std::int64_t x = 0; x < width; ++x)
          work.to[(c * work.count + row) * work.columns + block * n + x] =
              cfloat(to[static_cast<std::size_t>(c * 2 * n + x)], to[static_cast<std::size_t>(c * 2 * n + n + x)]);
    }
  });
}

}  // namespace echotrain::numerics::cpu
