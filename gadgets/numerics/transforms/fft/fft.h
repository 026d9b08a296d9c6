// Centred discrete Fourier transforms of any size, batched over the leading axes.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

enum class Direction { forward, inverse };  ///< exp(-2 pi i ...) and exp(+2 pi i ...)

/// The smallest even number from `n` (>= 1) on with no prime factors but 2, 3, 5 and 7: FFTW and cuFFT are fast at
/// these.
std::int64_t fast_even_size(std::int64_t n);

/// Transforms in place, without scaling; element 0 is the origin ("FFT order"). The last `dims` axes (1..3) of `data`
/// are transformed, the axes before them are the batch. Source: FFTW (CPU), cuFFT (CUDA); any size.
void fft(Context& context, DeviceView<cfloat> data, int dims, Direction direction);

/// Centred transform with zero-filling and cropping: `from` is k-space with its centre at floor(n/2) on each of its
/// last `dims` axes; it is placed (or cut) about the centre of a grid of the extents `padded` ([..dims] values, slowest
/// first), transformed, cut about the centre to the last `dims` extents of `to`, whose centre is floor(n/2) too, and
/// multiplied by `scale`. Leading axes (the batch) of `from` and `to` must be equal, and to <= padded on every axis
/// (std::invalid_argument otherwise).
///   to[r] = scale * sum_k from[k] exp(+-2 pi i sum_a k_a r_a / padded_a),  k, r measured from the centres.
void centered_fft(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to, const Shape& padded, int dims,
                  Direction direction, float scale);

}  // namespace echotrain::numerics
