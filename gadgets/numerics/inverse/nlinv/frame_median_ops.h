// The median over frames on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/inverse/nlinv/frame_median.h"

namespace echotrain::numerics {

struct MedianFrames {
  int count;
  const cfloat* frames[kMostMedianFrames];
};

/// Sorts `count` values by insertion: there are few of them.
ECHOTRAIN_HOST_DEVICE inline float median_of(float* values, int count) {
  for (int i = 1; i < count; ++i) {
    const float value = values[i];
    int at = i;
    for (; at > 0 && values[at - 1] > value; --at) values[at] = values[at - 1];
    values[at] = value;
  }
  return values[(count - 1) / 2];
}

// clang-format off
ECHOTRAIN_BACKENDS(
void frame_median(Context& context, const MedianFrames& frames, std::int64_t n, cfloat* to);
)
// clang-format on

}  // namespace echotrain::numerics
