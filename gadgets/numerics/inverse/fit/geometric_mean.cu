#include <cmath>

#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/inverse/fit/geometric_mean.h"

namespace echotrain::numerics {

struct GeometricMean {
  const cfloat* from;
  const std::int32_t* images;
  int count;
  std::int64_t voxels;
  cfloat* to;
  ECHOTRAIN_EACH void operator()(std::int64_t v) const {
    float sum = 0;
    for (int i = 0; i < count; ++i) sum += logf(power(load(from + images[i] * voxels + v)));
    store({expf(sum * (0.5F / static_cast<float>(count))), 0}, to + v);
  }
};
ECHOTRAIN_MAP(GeometricMean, 1)

}  // namespace echotrain::numerics

#ifndef __CUDACC__
#include <fmt/format.h>

#include <stdexcept>

namespace echotrain::numerics {

void geometric_mean(Context& context, DeviceView<const cfloat> from, const std::vector<std::int32_t>& images,
                    DeviceView<cfloat> to) {
  bool fits = from.shape().rank() == 2 && to.size() == from.shape()[1] && !images.empty();
  for (const std::int32_t image : images) fits = fits && image >= 0 && image < from.shape()[0];
  if (!fits)
    throw std::invalid_argument(fmt::format("geometric_mean: {} images of {} do not fit {}", images.size(),
                                            from.shape().text(), to.shape().text()));
  const Readable<std::int32_t> chosen(context, {images.data(), {static_cast<std::int64_t>(images.size())}});
  map(context, {to.size()},
      GeometricMean{from.data(), chosen.data(), static_cast<int>(images.size()), to.size(), to.data()}, 1024);
}

}  // namespace echotrain::numerics
#endif
