// Gradients and edge weights on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/fft_ops.h"
#include "gadgets/numerics/sobel.h"

namespace echotrain::numerics {

/// An edge's weight is never less: 1 / (1 + kMostRatio^2).
constexpr float kMostRatio = 1e3f;

namespace cpu {
/// components may be nullptr; axes: 2 or 3.
void sobel(Context& context, const float* image, const Extents& n, int axes, float* magnitude, float* components);
void edge_weights(Context& context, const float* reference, const Extents& n, int axes, float strength, double quantile,
                  float* weights);
}  // namespace cpu
namespace cuda {
void sobel(Context& context, const float* image, const Extents& n, int axes, float* magnitude, float* components);
void edge_weights(Context& context, const float* reference, const Extents& n, int axes, float strength, double quantile,
                  float* weights);
}  // namespace cuda

}  // namespace echotrain::numerics
