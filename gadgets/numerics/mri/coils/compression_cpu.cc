#include <algorithm>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/mri/coils/compression_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kStretch = 256;  // samples worked on at a time, so that sums stay in the cache
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

/// sum[s] += a[s] conj(b[s]).
ECHOTRAIN_CLONES void add_products(const float* a, const float* b, std::int64_t n, double* sum) {
  for (std::int64_t s = 0; s < n; ++s) {
    const double ar = a[2 * s], ai = a[2 * s + 1], br = b[2 * s], bi = b[2 * s + 1];
    sum[2 * s] += ar * br + ai * bi;
    sum[2 * s + 1] += ai * br - ar * bi;
  }
}

ECHOTRAIN_CLONES void add_times(const float* from, float re, float im, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    to[2 * i] += re * from[2 * i] - im * from[2 * i + 1];
    to[2 * i + 1] += re * from[2 * i + 1] + im * from[2 * i];
  }
}

ECHOTRAIN_CLONES void add_times_each(const float* from, const float* factor, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    to[2 * i] += factor[2 * i] * from[2 * i] - factor[2 * i + 1] * from[2 * i + 1];
    to[2 * i + 1] += factor[2 * i] * from[2 * i + 1] + factor[2 * i + 1] * from[2 * i];
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

void add_coil_grams(Context& context, DeviceView<const cfloat> data, DeviceView<cdouble> grams) {
  const std::int64_t readouts = data.shape()[0], coils = data.shape()[1], samples = data.shape()[2];
  context.threads().parallel_for(coils, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t a = begin; a < end; ++a)
      for (std::int64_t b = 0; b <= a; ++b) {
        cdouble* sum = grams.data() + (a * coils + b) * samples;
        for (std::int64_t i = 0; i < readouts; ++i) {
          const cfloat* readout = data.data() + i * coils * samples;
          add_products(parts(readout + a * samples), parts(readout + b * samples), samples,
                       reinterpret_cast<double*>(sum));
        }
        if (b < a)
          std::transform(sum, sum + samples, grams.data() + (b * coils + a) * samples,
                         [](cdouble v) { return std::conj(v); });
      }
  });
}

void compress(Context& context, DeviceView<const cfloat> matrix, DeviceView<const cfloat> data, DeviceView<cfloat> to) {
  const std::int64_t readouts = data.shape()[0], coils = data.shape()[1], samples = data.shape()[2];
  const std::int64_t kept = to.shape()[1], blocks = (samples + kStretch - 1) / kStretch;
  const bool each = matrix.shape().rank() == 3;
  const std::int64_t cost = coils * kept * std::min(kStretch, samples);
  constexpr std::int64_t kLeast = 32 * 1024;  // products that make a piece worth a thread
  context.threads().parallel_for(
      readouts * blocks, std::max<std::int64_t>(1, kLeast / cost), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t b = begin; b < end; ++b) {
          const std::int64_t s = b % blocks * kStretch, n = std::min(kStretch, samples - s);
          const cfloat* from = data.data() + b / blocks * coils * samples + s;
          for (std::int64_t k = 0; k < kept; ++k) {
            cfloat* sum = to.data() + (b / blocks * kept + k) * samples + s;
            std::fill_n(sum, n, cfloat{});
            for (std::int64_t c = 0; c < coils; ++c)
              if (each) {
                const cfloat* factors = matrix.data() + (k * coils + c) * samples + s;
                add_times_each(parts(from + c * samples), parts(factors), reinterpret_cast<float*>(sum), n);
              } else {
                const cfloat m = matrix.data()[k * coils + c];
                add_times(parts(from + c * samples), m.real(), m.imag(), reinterpret_cast<float*>(sum), n);
              }
          }
        }
      });
}

}  // namespace echotrain::numerics::cpu
