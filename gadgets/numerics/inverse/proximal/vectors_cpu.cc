#include <algorithm>
#include <cmath>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/inverse/proximal/vectors_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kVectorGrain = 16 * 1024;  // values per piece
constexpr std::int64_t kStretch = 1024;           // values whose sizes are held at a time

ECHOTRAIN_CLONES void add_terms(const float* a, const float* b, const float* c, const float* factor, std::int64_t n,
                                float* to) {
  if (c != nullptr) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = factor[0] * a[i] + factor[1] * b[i] + factor[2] * c[i];
  } else if (b != nullptr) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = factor[0] * a[i] + factor[1] * b[i];
  } else if (a != nullptr) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = factor[0] * a[i];
  } else {
    std::fill(to, to + n, 0.0f);
  }
}

/// to = the squared sizes over all parts, which are `apart` floats from each other.
ECHOTRAIN_CLONES void add_squares(const float* c, std::int64_t parts, std::int64_t apart, std::int64_t n, float* to) {
  std::fill(to, to + n, 0.0f);
  for (std::int64_t p = 0; p < parts; ++p) {
    const float* part = c + p * apart;
    for (std::int64_t i = 0; i < n; ++i) to[i] += part[2 * i] * part[2 * i] + part[2 * i + 1] * part[2 * i + 1];
  }
}

/// factors = the share that is kept of values of these squared sizes.
ECHOTRAIN_CLONES void factors_of(float threshold, bool keep, std::int64_t n, float* squares) {
  for (std::int64_t i = 0; i < n; ++i) squares[i] = part_of_size(threshold, keep, std::sqrt(squares[i]));
}

ECHOTRAIN_CLONES void multiply_by(const float* factors, std::int64_t n, float* c) {
  for (std::int64_t i = 0; i < n; ++i) {
    c[2 * i] *= factors[i];
    c[2 * i + 1] *= factors[i];
  }
}

const float* plain(const cfloat* values) { return reinterpret_cast<const float*>(values); }
float* plain(cfloat* values) { return reinterpret_cast<float*>(values); }

}  // namespace

void weighted_sum(Context& context, const VectorSum& sum, cfloat* to) {
  context.threads().parallel_for(sum.n, kVectorGrain, [&](std::int64_t begin, std::int64_t end) {
    const auto at = [&](int t) { return sum.of[t] == nullptr ? nullptr : plain(sum.of[t] + begin); };
    add_terms(at(0), at(1), at(2), sum.factor, 2 * (end - begin), plain(to + begin));
  });
}

void shrink(Context& context, float threshold, bool keep, std::int64_t parts, std::int64_t n, cfloat* c) {
  context.threads().parallel_for(n, kVectorGrain / 4, [&](std::int64_t begin, std::int64_t end) {
    float factors[kStretch];
    for (std::int64_t first = begin; first < end; first += kStretch) {
      const std::int64_t count = std::min(kStretch, end - first);
      add_squares(plain(c + first), parts, 2 * n, count, factors);
      factors_of(threshold, keep, count, factors);
      for (std::int64_t p = 0; p < parts; ++p) multiply_by(factors, count, plain(c + p * n + first));
    }
  });
}

void magnitudes(Context& context, std::int64_t parts, std::int64_t n, const cfloat* c, float* to) {
  context.threads().parallel_for(n, kVectorGrain / 4, [&](std::int64_t begin, std::int64_t end) {
    add_squares(plain(c + begin), parts, 2 * n, end - begin, to + begin);
    for (std::int64_t i = begin; i < end; ++i) to[i] = std::sqrt(to[i]);
  });
}

}  // namespace echotrain::numerics::cpu
