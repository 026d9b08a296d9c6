#include "gadgets/numerics/inverse/nlinv/frame_median.h"

#include <fmt/format.h>

#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/inverse/nlinv/frame_median_ops.h"

namespace echotrain::numerics {

void median_of_frames(Context& context, std::span<const DeviceView<const cfloat>> frames, DeviceView<cfloat> to) {
  if (frames.empty() || frames.size() > static_cast<std::size_t>(kMostMedianFrames))
    throw std::invalid_argument(fmt::format("median: 1 to {} frames, not {}", kMostMedianFrames, frames.size()));
  MedianFrames all{.count = static_cast<int>(frames.size()), .frames = {}};
  for (std::size_t f = 0; f < frames.size(); ++f) {
    if (frames[f].size() != to.size())
      throw std::invalid_argument(fmt::format("median: {} is not {}", frames[f].shape().text(), to.shape().text()));
    all.frames[f] = frames[f].data();
  }
  ECHOTRAIN_DISPATCH(context, frame_median(context, all, to.size(), to.data()));
}

}  // namespace echotrain::numerics
