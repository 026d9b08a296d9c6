#include <cmath>
#include <limits>

#include "gadgets/numerics/inverse/nlinv/frame_median_ops.h"

namespace echotrain::numerics::cpu {

void frame_median(Context& context, const MedianFrames& frames, std::int64_t n, cfloat* to) {
  constexpr std::int64_t kGrain = 4096;
  context.threads().parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float values[kMostMedianFrames];
      for (int f = 0; f < frames.count; ++f) {
        const float size = std::hypot(frames.frames[f][i].real(), frames.frames[f][i].imag());
        values[f] = std::isfinite(size) ? size : std::numeric_limits<float>::infinity();
      }
      to[i] = median_of(values, frames.count);
    }
  });
}

}  // namespace echotrain::numerics::cpu
