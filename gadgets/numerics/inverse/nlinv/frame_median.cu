#include <cmath>

#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/inverse/nlinv/frame_median.h"

namespace echotrain::numerics {

struct MedianOfFrames {
  int count;
  const cfloat* frames[kMostMedianFrames];
  cfloat* to;

  ECHOTRAIN_EACH void operator()(std::int64_t i) const {
    float values[kMostMedianFrames];
    for (int f = 0; f < count; ++f) {
      const Complex value = load(frames[f] + i);
      const float size = hypotf(value.re, value.im);
      values[f] = size - size == 0 ? size : INFINITY;
    }
    store({median_of(values), 0}, to + i);
  }
  /// Sorts the values by insertion: there are few of them.
  ECHOTRAIN_EACH float median_of(float* values) const {
    for (int i = 1; i < count; ++i) {
      const float value = values[i];
      int at = i;
      for (; at > 0 && values[at - 1] > value; --at) values[at] = values[at - 1];
      values[at] = value;
    }
    return values[(count - 1) / 2];
  }
};
ECHOTRAIN_MAP(MedianOfFrames, 1)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <fmt/format.h>

#include <stdexcept>

namespace echotrain::numerics {

void median_of_frames(Context& context, std::span<const DeviceView<const cfloat>> frames, DeviceView<cfloat> to) {
  if (frames.empty() || frames.size() > static_cast<std::size_t>(kMostMedianFrames))
    throw std::invalid_argument(fmt::format("median: 1 to {} frames, not {}", kMostMedianFrames, frames.size()));
  MedianOfFrames median{.count = static_cast<int>(frames.size()), .frames = {}, .to = to.data()};
  for (std::size_t f = 0; f < frames.size(); ++f) {
    if (frames[f].size() != to.size())
      throw std::invalid_argument(fmt::format("median: {} is not {}", frames[f].shape().text(), to.shape().text()));
    median.frames[f] = frames[f].data();
  }
  constexpr std::int64_t kGrain = 4096;
  map(context, {to.size()}, median, kGrain);
}

}  // namespace echotrain::numerics
#endif
