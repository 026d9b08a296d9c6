// Vector operations of proximal methods on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/inverse/proximal/vectors.h"

namespace echotrain::numerics {

/// The terms of a sum; a null pointer omits the term.
struct VectorSum {
  const cfloat* of[3];
  float factor[3];
  std::int64_t n;
};

/// The share that shrink() keeps, or takes, of a value of this size.
ECHOTRAIN_HOST_DEVICE inline float part_of_size(float threshold, bool keep, float size) {
  const float taken = size <= threshold ? 1.0f : threshold / size;
  return keep ? 1.0f - taken : taken;
}

// clang-format off
ECHOTRAIN_BACKENDS(
void weighted_sum(Context& context, const VectorSum& sum, cfloat* to);
/// keep: the part above the threshold stays; else the part below it.
void shrink(Context& context, float threshold, bool keep, std::int64_t parts, std::int64_t n, cfloat* c);
void magnitudes(Context& context, std::int64_t parts, std::int64_t n, const cfloat* c, float* to);
)
// clang-format on

}  // namespace echotrain::numerics
