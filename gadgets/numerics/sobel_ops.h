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
/// rank: which of the edges' differences, sorted from 0 on, is the quantile.
void edge_weights(Context& context, const float* reference, const Extents& n, int axes, float strength,
                  std::int64_t rank, float* weights);
}  // namespace cpu
namespace cuda {
void sobel(Context& context, const float* image, const Extents& n, int axes, float* magnitude, float* components);
void edge_weights(Context& context, const float* reference, const Extents& n, int axes, float strength,
                  std::int64_t rank, float* weights);
}  // namespace cuda

/// The number of edges of an image along an axis (0 = x).
inline std::int64_t edges_along(const Extents& n, int axis) {
  const std::int64_t extent = n[2 - static_cast<std::size_t>(axis)];
  return volume(n) / extent * (extent - 1);
}

}  // namespace echotrain::numerics
