// What proximal methods do with vectors, value by value.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

struct VectorTerm {
  double factor = 0;
  DeviceView<const cfloat> of;  ///< of the result's size
};

/// to = a + b + c, each a factor times a vector; a term without a vector is left out. `to` may be one of the vectors.
/// Asynchronous on CUDA. std::invalid_argument on sizes that do not fit.
void weighted_sum(Context& context, const VectorTerm& a, const VectorTerm& b, const VectorTerm& c,
                  DeviceView<cfloat> to);
inline void weighted_sum(Context& context, const VectorTerm& a, const VectorTerm& b, DeviceView<cfloat> to) {
  weighted_sum(context, a, b, {}, to);
}

/// The proximal map of `threshold` times the sum over v of m(v), m(v) the root of the sum over p of |c[p, v]|^2: what
/// is one number of every part loses `threshold` of its size together, and becomes 0 where it has no more than that.
/// In place; not finite where c is not. c: [part, ...]. Asynchronous on CUDA. std::invalid_argument where the threshold
/// is negative. Source: soft thresholding, Donoho, IEEE TIT 41, 1995; of groups: Yuan and Lin, JRSS B 68, 2006.
void shrink(Context& context, double threshold, DeviceView<cfloat> c);

/// What shrink() takes away: c is scaled to sizes m of at most `threshold`.
void clip(Context& context, double threshold, DeviceView<cfloat> c);

/// m of shrink(), summed over v in float64. Waits for the device.
double sum_of_magnitudes(Context& context, DeviceView<const cfloat> c);

}  // namespace echotrain::numerics
