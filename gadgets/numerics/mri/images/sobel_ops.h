// Gradients and edge weights on each backend; arguments were checked.
#pragma once

#include <cmath>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/extents.h"
#include "gadgets/numerics/mri/images/sobel.h"

namespace echotrain::numerics {

/// An edge's weight is never less than 1 / (1 + kMostRatio^2).
constexpr float kMostRatio = 1e3f;

struct GradientImage {
  int axes;
  float factors[3];
  GradientPart part;
  std::int64_t voxels;

  /// Makes voxel v of every channel. Complex: a type of two floats.
  template <class Complex>
  ECHOTRAIN_HOST_DEVICE void make(const float* components, std::int64_t v, Complex* to) const {
    float g[3] = {0, 0, 0};
    double squares = 0;
    for (int a = 0; a < 3; ++a) {
      if (a == axes) break;
      g[a] = components[a * voxels + v] * factors[a];
      squares += static_cast<double>(g[a]) * g[a];
    }
    const double size = sqrt(squares), inverse = size == 0 ? 0 : 1 / size;
    const auto unit = [&](int a) { return static_cast<float>(g[a] * inverse); };
    if (part == GradientPart::magnitude) {
      to[v] = Complex{static_cast<float>(size), 0};
    } else if (axes == 2) {
      to[v] = part == GradientPart::both ? Complex{g[0], g[1]} : Complex{unit(0), unit(1)};
    } else {
      std::int64_t at = v;
      if (part == GradientPart::both) {
        to[at] = Complex{static_cast<float>(size), 0};
        at += voxels;
      }
      for (int a = 0; a < 3; ++a) to[at + a * voxels] = Complex{unit(a), 0};
    }
  }
};

// clang-format off
ECHOTRAIN_BACKENDS(
/// components may be nullptr; axes: 2 or 3.
void sobel(Context& context, const float* image, const Extents& n, int axes, float* magnitude, float* components);
void gradient_image(Context& context, const float* components, const GradientImage& how, cfloat* to);
void edge_weights(Context& context, const float* reference, const Extents& n, int axes, float strength, double quantile,
                  float* weights);
)
// clang-format on

}  // namespace echotrain::numerics
