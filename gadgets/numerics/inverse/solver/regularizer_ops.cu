#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/inverse/solver/regularizer_ops.h"

namespace echotrain::numerics {

constexpr int kStencilLanes = 256;

struct AddedIdentity {
  static constexpr bool kClones = true;
  float scale;
  const cfloat* x;
  cfloat* y;
  ECHOTRAIN_EACH void operator()(std::int64_t i) const { store(load(y + i) + scale * load(x + i), y + i); }
};
ECHOTRAIN_MAP(AddedIdentity, 1)

/// Calls use(distance to the neighbour, weights of the edges to it or nullptr, factor, first lane, count) for the edges
/// of lanes at (z, y, x), whose first one is element i of the image: along each axis first those to the next voxels,
/// then those to the voxels before.
template <int kMost, class Use>
ECHOTRAIN_EACH void for_edges(const Stencil& s, std::int64_t z, std::int64_t y, Lanes<kMost> x, std::int64_t i,
                              const Use& use) {
  const std::int64_t step[3] = {s.n[1] * s.n[2], s.n[2], 1}, at[2] = {z, y};
  for (int a = 0; a < 3; ++a) {
    if (s.factor[a] == 0) continue;
    const float* w = s.weights[a] == nullptr ? nullptr : s.weights[a] + i;
    const bool across = a < 2;  // all lanes have such neighbours, or none
    const int next = across ? (at[a] + 1 < s.n[a] ? x.count : 0) : x.count - (x.first + x.count == s.n[2] ? 1 : 0);
    const int before = across ? (at[a] > 0 ? 0 : x.count) : (x.first == 0 ? 1 : 0);
    use(step[a], w, s.factor[a], 0, next);
    use(-step[a], w == nullptr ? nullptr : w - step[a], s.factor[a], before, x.count);
  }
}

struct AddedStencil {
  static constexpr int kLanes[] = {0, 0, 0, kStencilLanes};
  static constexpr bool kClones = true;
  Stencil s;
  float scale;
  const cfloat* x;
  cfloat* y;

  template <int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t item, std::int64_t z, std::int64_t row, Lanes<kMost> lanes) const {
    const std::int64_t voxel = (z * s.n[1] + row) * s.n[2] + lanes.first;
    const cfloat* const from = x + item * s.n[0] * s.n[1] * s.n[2] + voxel;
    cfloat* const to = y + (from - x);
    Complex sums[kMost];
    for (int l = 0; l < lanes.count; ++l) sums[l] = load(to + l);
    for_edges(s, z, row, lanes, voxel,
              [&](std::int64_t step, const float* w, float of_axis, int first, int last) ECHOTRAIN_INLINE_LAMBDA {
                const float all = scale * of_axis;
                for (int l = first; l < last; ++l)
                  sums[l] =
                      sums[l] + (w == nullptr ? all : all * (w[l] * w[l])) * (load(from + l) - load(from + l + step));
              });
    for (int l = 0; l < lanes.count; ++l) store(sums[l], to + l);
  }
};
ECHOTRAIN_MAP(AddedStencil, 4)

struct StencilDiagonal {
  static constexpr int kLanes[] = {0, 0, kStencilLanes};
  Stencil s;
  float* diagonal;

  template <int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t z, std::int64_t row, Lanes<kMost> lanes) const {
    const std::int64_t voxel = (z * s.n[1] + row) * s.n[2] + lanes.first;
    float sums[kMost];
    for (int l = 0; l < lanes.count; ++l) sums[l] = 0;
    for_edges(s, z, row, lanes, voxel,
              [&](std::int64_t, const float* w, float of_axis, int first, int last) ECHOTRAIN_INLINE_LAMBDA {
                // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): all lanes were set to 0
                for (int l = first; l < last; ++l) sums[l] += of_axis * (w == nullptr ? 1.0f : w[l] * w[l]);
              });
    for (int l = 0; l < lanes.count; ++l) diagonal[voxel + l] = sums[l];
  }
};
ECHOTRAIN_MAP(StencilDiagonal, 3)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

namespace echotrain::numerics {

void add_identity(Context& context, float scale, const cfloat* x, cfloat* y, std::int64_t n) {
  map(context, {n}, AddedIdentity{scale, x, y});
}

void add_stencil(Context& context, const Stencil& stencil, float scale, const cfloat* x, cfloat* y,
                 std::int64_t batch) {
  const Extents& n = stencil.n;
  map(context, {batch, n[0], n[1], n[2]}, AddedStencil{stencil, scale, x, y});
}

void stencil_diagonal(Context& context, const Stencil& stencil, float* diagonal) {
  const Extents& n = stencil.n;
  map(context, {n[0], n[1], n[2]}, StencilDiagonal{stencil, diagonal});
}

}  // namespace echotrain::numerics
#endif
