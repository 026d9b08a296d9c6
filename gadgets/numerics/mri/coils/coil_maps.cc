#include "gadgets/numerics/mri/coils/coil_maps.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/coils/coil_maps_ops.h"

namespace echotrain::numerics {

void adaptive_maps(Context& context, DeviceView<const cfloat> images, int block, DeviceView<cfloat> maps,
                   float threshold) {
  const Shape& shape = images.shape();
  if (shape.rank() != 4 || !(maps.shape() == shape))
    throw std::invalid_argument(fmt::format("adaptive_maps: expected images and maps [coil, z, y, x], got {} and {}",
                                            shape.text(), maps.shape().text()));
  if (block < 1 || block > kMostBlock)
    throw std::invalid_argument(fmt::format("adaptive_maps: expected a block of 1..{}, got {}", kMostBlock, block));
  if (!(threshold >= 0 && threshold <= 1))
    throw std::invalid_argument(fmt::format("adaptive_maps: expected a threshold of 0..1, got {}", threshold));
  if (images.size() == 0) return;
  const AdaptiveMaps work{.images = images.data(),
                          .coils = shape[0],
                          .n = last_axes(shape, 3),
                          .before = block / 2,
                          .after = (block - 1) / 2,
                          .threshold = threshold,
                          .maps = maps.data()};
  ECHOTRAIN_DISPATCH(context, adaptive_maps(context, work));
}

void principal_component(const cdouble* triangle, std::int64_t n, cfloat* vector) {
  std::vector<cdouble> x(static_cast<std::size_t>(n)), y(x.size());
  for (std::int64_t c = 0; c < n; ++c)
    x[static_cast<std::size_t>(c)] =
        std::polar(1 / std::sqrt(static_cast<double>(n)), 2 * std::numbers::pi * start_turns(c));
  for (int i = 0; i < kReferenceIterations; ++i) {
    double norm = 0;
    for (std::int64_t a = 0; a < n; ++a) {
      cdouble sum = 0;
      for (std::int64_t b = 0; b < n; ++b)
        sum += (b <= a ? triangle[triangle_index(a, b)] : std::conj(triangle[triangle_index(b, a)])) *
               x[static_cast<std::size_t>(b)];
      y[static_cast<std::size_t>(a)] = sum;
      norm += std::norm(sum);
    }
    if (!(norm > 0)) break;
    for (std::size_t a = 0; a < x.size(); ++a) x[a] = y[a] / std::sqrt(norm);
  }
  for (std::int64_t c = 0; c < n; ++c) vector[c] = cfloat(x[static_cast<std::size_t>(c)]);
}

}  // namespace echotrain::numerics
