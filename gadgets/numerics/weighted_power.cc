#include "gadgets/numerics/weighted_power.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/dispatch.h"

namespace echotrain::numerics {

void add_weighted_power(Context& context, View<const cfloat> samples, View<const float> weights, View<double> sum) {
  if (samples.shape().rank() != 2 || sum.size() != 1 || (weights.size() != 0 && weights.size() != samples.shape()[0]))
    throw std::invalid_argument("weighted power: shapes " + samples.shape().text() + ", " + weights.shape().text());
  if (samples.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, add_weighted_power(context, samples, weights, sum));
}

namespace cpu {

void add_weighted_power(Context& context, View<const cfloat> samples, View<const float> weights, View<double> sum) {
  constexpr std::int64_t kBlock = 4096;  // samples; fixed, so that sums do not depend on the threads
  const std::int64_t n = samples.shape()[0], coils = samples.shape()[1], blocks = (n + kBlock - 1) / kBlock;
  std::vector<double> parts(static_cast<std::size_t>(blocks));
  context.threads().parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      double part = 0;
      for (std::int64_t s = b * kBlock; s < std::min(n, (b + 1) * kBlock); ++s) {
        const double weight = weights.size() == 0 ? 1.0 : weights[s];
        if (weight == 0) continue;
        double power = 0;
        for (std::int64_t c = 0; c < coils; ++c) power += std::norm(cdouble(samples[s * coils + c]));
        part += weight * power;
      }
      parts[static_cast<std::size_t>(b)] = part;
    }
  });
  for (const double part : parts) sum[0] += part;
}

}  // namespace cpu
}  // namespace echotrain::numerics
