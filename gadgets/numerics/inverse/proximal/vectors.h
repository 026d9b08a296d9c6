// Elementwise vector operations of proximal methods: sums, soft thresholding, clipping.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

struct VectorTerm {
  double factor = 0;
  DeviceView<const cfloat> of;  ///< as long as the result
};

/// to = a + b + c, each a factor times a vector; a term without a vector is omitted. `to` may be one of the vectors.
/// Asynchronous on CUDA. Throws std::invalid_argument on sizes that do not fit.
void weighted_sum(Context& context, const VectorTerm& a, const VectorTerm& b, const VectorTerm& c,
                  DeviceView<cfloat> to);
inline void weighted_sum(Context& context, const VectorTerm& a, const VectorTerm& b, DeviceView<cfloat> to) {
  weighted_sum(context, a, b, {}, to);
}

/// The proximal map of `threshold` times the sum over v of m(v), m(v) the root of the sum over p of |c[p, v]|^2: the
/// numbers at v of all parts together lose `threshold` of their size m(v), and become 0 where m(v) is no larger. In
/// place; not finite where c is not. c: [part, ...]. Asynchronous on CUDA. Throws std::invalid_argument where the
/// threshold is negative. Source: soft thresholding, Donoho, IEEE TIT 41, 1995; of groups: Yuan and Lin, JRSS B 68,
/// 2006.
void shrink(Context& context, double threshold, DeviceView<cfloat> c);

/// Keeps the part that shrink() takes away: c is scaled to sizes m of at most `threshold`.
void clip(Context& context, double threshold, DeviceView<cfloat> c);

/// The sum over v of m (see shrink()), in float64. Waits for the device.
double sum_of_magnitudes(Context& context, DeviceView<const cfloat> c);

}  // namespace echotrain::numerics
