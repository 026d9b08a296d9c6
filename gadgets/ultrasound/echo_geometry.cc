#include "gadgets/ultrasound/echo_geometry.h"

#include <algorithm>
#include <cmath>

namespace echotrain {

EchoFrequencies kept_frequencies(const EchoGeometry& geometry, std::int64_t bins, double bandwidth) {
  const double step = geometry.sampling_hz / static_cast<double>(bins), base = geometry.demodulated_hz;
  // The numbers of frequencies, counted from `base` in steps.
  std::int64_t first = -bins / 2;
  if (base <= 0)
    first = static_cast<std::int64_t>(std::floor(geometry.center_hz / (geometry.sampling_hz / 2))) * (bins / 2);
  std::int64_t end = first + (base > 0 ? bins : bins / 2);
  const double low = std::max(step, geometry.center_hz * (1 - bandwidth / 2)),
               high = geometry.center_hz * (1 + bandwidth / 2);
  first = std::max(first, static_cast<std::int64_t>(std::ceil((low - base) / step)));
  end = std::min(end, static_cast<std::int64_t>(std::floor((high - base) / step)) + 1);
  return {((first % bins) + bins) % bins, std::max<std::int64_t>(0, end - first),
          base + static_cast<double>(first) * step, step};
}

}  // namespace echotrain
