#include <algorithm>

#include "gadgets/numerics/core/layout/rearrange_ops.h"

namespace echotrain::numerics::cpu {

void rearrange(Context& context, DeviceView<const cfloat> from, const Strides& strides, DeviceView<cfloat> to) {
  constexpr std::int64_t kGrain = 16 * 1024;  // elements per piece
  const std::int64_t nz = to.shape()[1], ny = to.shape()[2], nx = to.shape()[3], step = strides.stride[2];
  context.threads().parallel_for(
      to.shape()[0] * nz * ny, std::max<std::int64_t>(1, kGrain / nx), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t y = row % ny, z = row / ny % nz, c = row / ny / nz;
          const std::int64_t start = c * strides.coil + strides.start + z * strides.stride[0] + y * strides.stride[1];
          const cfloat* source = from.data() + start;
          cfloat* target = to.data() + row * nx;
          for (std::int64_t x = 0; x < nx; ++x) target[x] = source[x * step];
        }
      });
}

}  // namespace echotrain::numerics::cpu
