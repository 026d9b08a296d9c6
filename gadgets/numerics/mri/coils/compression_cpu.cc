#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/mri/coils/compression_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kDotLanes = 8;

/// sum of a conj(b) over n samples, in lanes whose sums are added in order.
ECHOTRAIN_CLONES void dot(const float* a, const float* b, std::int64_t n, double* sum) {
  double re[kDotLanes] = {}, im[kDotLanes] = {};
  std::int64_t s = 0;
  for (; s + kDotLanes <= n; s += kDotLanes)
    for (std::int64_t l = 0; l < kDotLanes; ++l) {
      const double ar = a[2 * (s + l)], ai = a[2 * (s + l) + 1], br = b[2 * (s + l)], bi = b[2 * (s + l) + 1];
      re[l] += ar * br + ai * bi;
      im[l] += ai * br - ar * bi;
    }
  for (std::int64_t l = 0; s < n; ++s, ++l) {
    const double ar = a[2 * s], ai = a[2 * s + 1], br = b[2 * s], bi = b[2 * s + 1];
    re[l] += ar * br + ai * bi;
    im[l] += ai * br - ar * bi;
  }
  for (std::int64_t l = 0; l < kDotLanes; ++l) {
    sum[0] += re[l];
    sum[1] += im[l];
  }
}

const float* parts(const cfloat* data) { return reinterpret_cast<const float*>(data); }

}  // namespace

void add_coil_gram(Context& context, DeviceView<const cfloat> data, std::int64_t first, std::int64_t last,
                   DeviceView<cdouble> gram) {
  const std::int64_t readouts = data.shape()[0], coils = data.shape()[1], samples = data.shape()[2];
  context.threads().parallel_for(coils, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t a = begin; a < end; ++a)
      for (std::int64_t b = 0; b <= a; ++b) {
        cdouble& sum = gram.data()[a * coils + b];
        for (std::int64_t i = 0; i < readouts; ++i) {
          const cfloat* readout = data.data() + i * coils * samples + first;
          double one[2] = {};
          dot(parts(readout + a * samples), parts(readout + b * samples), last - first, one);
          sum += cdouble(one[0], one[1]);
        }
        if (b < a) gram.data()[b * coils + a] = std::conj(sum);
      }
  });
}

}  // namespace echotrain::numerics::cpu
