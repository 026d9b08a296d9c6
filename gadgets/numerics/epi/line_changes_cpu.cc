#include <algorithm>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/epi/line_changes_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kBlock = 32;  // points whose sums stay in registers

/// to[x] = sum_s weights[s, x] from[s] for kBlock points from `weights` and `to` on; rows of weights are `stride` long.
ECHOTRAIN_CLONES void combine_block(const float* weights, std::int64_t stride, const float* from, std::int64_t samples,
                                    float* to) {
  float re[kBlock] = {}, im[kBlock] = {};
  for (std::int64_t s = 0; s < samples; ++s) {
    const float a = from[2 * s], b = from[2 * s + 1];
    const float* row = weights + s * stride;
    for (std::int64_t x = 0; x < kBlock; ++x) {
      re[x] += a * row[x];
      im[x] += b * row[x];
    }
  }
  for (std::int64_t x = 0; x < kBlock; ++x) {
    to[2 * x] = re[x];
    to[2 * x + 1] = im[x];
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

/// to = factor * phases * from, as pairs of floats.
ECHOTRAIN_CLONES void multiply(const float* phases, const float* from, float re, float im, float* to, std::int64_t n) {
  for (std::int64_t x = 0; x < n; ++x) {
    const float pr = re * phases[2 * x] - im * phases[2 * x + 1], pi = re * phases[2 * x + 1] + im * phases[2 * x];
    const float fr = from[2 * x], fi = from[2 * x + 1];
    to[2 * x] = pr * fr - pi * fi;
    to[2 * x + 1] = pr * fi + pi * fr;
  }
}

const float* floats(const cfloat* data) { return reinterpret_cast<const float*>(data); }

}  // namespace

void change_lines(Context& context, HostView<const LineChange> changes, DeviceView<const cfloat> phases,
                  DeviceView<const cfloat> from, DeviceView<cfloat> to) {
  constexpr std::int64_t kGrain = 16 * 1024;  // elements per piece
  const std::int64_t coils = from.shape()[1], n = from.shape()[2], each = phases.shape()[1];
  context.threads().parallel_for(
      from.shape()[0] * coils, std::max<std::int64_t>(1, kGrain / n), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const LineChange& change = changes.data()[row / coils];
          const cfloat* factors = phases.data() + (change.set * each + (each == 1 ? 0 : row % coils)) * n;
          const cfloat* source = from.data() + row * n;
          cfloat* target = to.data() + row * n;
          if (change.turned != 0) {
            for (std::int64_t x = 0; x < n; ++x) target[x] = source[(2 * (n / 2) - x + n) % n];
            source = target;  // each element is read before it is written
          }
          multiply(floats(factors), floats(source), change.factor.real(), change.factor.imag(),
                   reinterpret_cast<float*>(target), n);
        }
      });
}

void combine_samples(Context& context, HostView<const std::int32_t> sets, DeviceView<const float> weights,
                     DeviceView<const cfloat> from, DeviceView<cfloat> to) {
  constexpr std::int64_t kLeast = 64 * 1024;  // products of a piece of work
  const std::int64_t coils = from.shape()[1], samples = from.shape()[2], n = to.shape()[2];
  context.threads().parallel_for(from.shape()[0] * coils, std::max<std::int64_t>(1, kLeast / (samples * n)),
                                 [&](std::int64_t begin, std::int64_t end) {
                                   for (std::int64_t row = begin; row < end; ++row) {
                                     const float* matrix = weights.data() + sets.data()[row / coils] * samples * n;
                                     const cfloat* source = from.data() + row * samples;
                                     cfloat* target = to.data() + row * n;
                                     std::int64_t x = 0;
                                     for (; x + kBlock <= n; x += kBlock)
                                       combine_block(matrix + x, n, floats(source), samples,
                                                     reinterpret_cast<float*>(target + x));
                                     combine_rest(matrix + x, n, source, samples, n - x, target + x);
                                   }
                                 });
}

}  // namespace echotrain::numerics::cpu
