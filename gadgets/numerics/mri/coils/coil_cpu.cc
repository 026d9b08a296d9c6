#include <algorithm>
#include <vector>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/mri/coils/coil_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kGrain = 32 * 1024;  // products that make a piece worth a thread
constexpr std::int64_t kBlock = 256;        // samples of one piece, so that they stay in the cache

ECHOTRAIN_CLONES void add_multiple(const float* from, float re, float im, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    to[2 * i] += re * from[2 * i] - im * from[2 * i + 1];
    to[2 * i + 1] += re * from[2 * i + 1] + im * from[2 * i];
  }
}

}  // namespace

void apply_coil_matrix(Context& context, DeviceView<const cfloat> matrix, DeviceView<cfloat> data) {
  const std::int64_t readouts = data.shape()[0], coils = data.shape()[1], samples = data.shape()[2];
  const std::int64_t blocks = (samples + kBlock - 1) / kBlock;
  const std::int64_t cost = coils * coils * std::min(kBlock, samples);
  context.threads().parallel_for(
      readouts * blocks, std::max<std::int64_t>(1, kGrain / cost), [&](std::int64_t begin, std::int64_t end) {
        std::vector<cfloat> result(static_cast<std::size_t>(coils * kBlock));
        for (std::int64_t b = begin; b < end; ++b) {
          const std::int64_t s = b % blocks * kBlock, n = std::min(kBlock, samples - s);
          cfloat* block = data.data() + b / blocks * coils * samples + s;
          std::fill(result.begin(), result.end(), cfloat{});
          for (std::int64_t to = 0; to < coils; ++to)
            for (std::int64_t from = 0; from < coils; ++from) {
              const cfloat m = matrix.data()[to * coils + from];
              if (m != cfloat{})  // a whitening matrix is triangular
                add_multiple(reinterpret_cast<const float*>(block + from * samples), m.real(), m.imag(),
                             reinterpret_cast<float*>(result.data() + to * kBlock), n);
            }
          for (std::int64_t c = 0; c < coils; ++c) std::copy_n(result.data() + c * kBlock, n, block + c * samples);
        }
      });
}

}  // namespace echotrain::numerics::cpu
