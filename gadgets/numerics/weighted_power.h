// How much signal there is.
#pragma once

#include "gadgets/numerics/context.h"

namespace echotrain::numerics {

/// sum[0] += sum over samples and coils of weights[s] |samples[s, c]|^2, in float64; samples of weight 0 may be
/// anything. samples: [sample, coil]; weights: [sample] or empty (all 1); sum: [1]; all where the context computes. The
/// same bits in every run and for any number of threads.
void add_weighted_power(Context& context, View<const cfloat> samples, View<const float> weights, View<double> sum);

namespace cpu {
void add_weighted_power(Context& context, View<const cfloat> samples, View<const float> weights, View<double> sum);
}
namespace cuda {
void add_weighted_power(Context& context, View<const cfloat> samples, View<const float> weights, View<double> sum);
}

}  // namespace echotrain::numerics
