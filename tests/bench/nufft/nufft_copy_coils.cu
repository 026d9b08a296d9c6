#include "gadgets/numerics/core/cuda_support.cuh"
#include "tests/bench/nufft/nufft_copy_coils.h"

namespace echotrain::bench {

using numerics::cfloat;

void copy_coils(numerics::Context& context, numerics::HostView<const cfloat> from, std::int64_t first,
                numerics::DeviceView<cfloat> to) {
  const auto bytes = [](std::int64_t values) { return static_cast<std::size_t>(values) * sizeof(cfloat); };
  const std::int64_t samples = to.shape()[2], width = to.shape()[1] * samples;
  const cudaStream_t stream = numerics::cuda::stream_of(context);
  numerics::cuda::check(
      cudaMemcpy2DAsync(to.data(), bytes(width), from.data() + first * samples, bytes(from.shape()[1] * samples),
                        bytes(width), static_cast<std::size_t>(to.shape()[0]), cudaMemcpyHostToDevice, stream),
      "copying coils");
}

}  // namespace echotrain::bench
