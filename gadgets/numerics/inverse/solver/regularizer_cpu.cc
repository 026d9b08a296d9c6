#include <algorithm>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/inverse/solver/regularizer_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kStencilGrain = 16 * 1024;  // elements per piece

/// y += scale x for n floats.
ECHOTRAIN_CLONES void add_multiple(float scale, const float* x, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += scale * x[i];
}

/// y += scale w^2 (x - neighbour) for n complex numbers; w: nullptr for all 1.
ECHOTRAIN_CLONES void add_difference(const float* x, const float* neighbour, const float* w, float scale, float* y,
                                     std::int64_t n) {
  if (w == nullptr) {
    for (std::int64_t i = 0; i < 2 * n; ++i) y[i] += scale * (x[i] - neighbour[i]);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const float factor = scale * (w[i] * w[i]);
    y[2 * i] += factor * (x[2 * i] - neighbour[2 * i]);
    y[2 * i + 1] += factor * (x[2 * i + 1] - neighbour[2 * i + 1]);
  }
}

/// Calls use(offset of an element, offset of its neighbour, offset of the edge between them, elements) for the elements
/// of a row that have a neighbour before or after them along an axis.
template <class Use>
void for_edges(const Extents& n, std::int64_t row, int axis, const Use& use) {
  const std::int64_t start = row * n[2], at[2] = {row / n[1], row % n[1]};
  if (axis == 2) {
    use(start, start + 1, start, n[2] - 1);
    use(start + 1, start, start, n[2] - 1);
    return;
  }
  const std::int64_t step = axis == 1 ? n[2] : n[1] * n[2];
  if (at[axis] + 1 < n[axis]) use(start, start + step, start, n[2]);
  if (at[axis] > 0) use(start, start - step, start - step, n[2]);
}

}  // namespace

void add_identity(Context& context, float scale, const cfloat* x, cfloat* y, std::int64_t n) {
  context.threads().parallel_for(n, kStencilGrain, [&](std::int64_t begin, std::int64_t end) {
    add_multiple(scale, reinterpret_cast<const float*>(x + begin), reinterpret_cast<float*>(y + begin),
                 2 * (end - begin));
  });
}

void add_stencil(Context& context, const Stencil& s, float scale, const cfloat* x, cfloat* y, std::int64_t batch) {
  const std::int64_t rows = s.n[0] * s.n[1], image = volume(s.n);
  context.threads().parallel_for(
      batch * rows, std::max<std::int64_t>(1, kStencilGrain / s.n[2]), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          const auto* from = reinterpret_cast<const float*>(x + r / rows * image);
          auto* to = reinterpret_cast<float*>(y + r / rows * image);
          for (int axis = 0; axis < 3; ++axis) {
            if (s.factor[axis] == 0) continue;
            const float* w = s.weights[axis];
            for_edges(s.n, r % rows, axis, [&](std::int64_t i, std::int64_t j, std::int64_t edge, std::int64_t n) {
              add_difference(from + 2 * i, from + 2 * j, w == nullptr ? nullptr : w + edge, scale * s.factor[axis],
                             to + 2 * i, n);
            });
          }
        }
      });
}

void stencil_diagonal(Context& context, const Stencil& s, float* diagonal) {
  context.threads().parallel_for(
      s.n[0] * s.n[1], std::max<std::int64_t>(1, kStencilGrain / s.n[2]), [&](std::int64_t begin, std::int64_t end) {
        std::fill(diagonal + begin * s.n[2], diagonal + end * s.n[2], 0.0f);
        for (std::int64_t r = begin; r < end; ++r)
          for (int axis = 0; axis < 3; ++axis) {
            if (s.factor[axis] == 0) continue;
            const float* w = s.weights[axis];
            for_edges(s.n, r, axis, [&](std::int64_t i, std::int64_t, std::int64_t edge, std::int64_t n) {
              for (std::int64_t k = 0; k < n; ++k)
                diagonal[i + k] += s.factor[axis] * (w == nullptr ? 1.0f : w[edge + k] * w[edge + k]);
            });
          }
      });
}

}  // namespace echotrain::numerics::cpu
