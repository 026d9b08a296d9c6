#include "gadgets/numerics/transforms/nufft/nufft_gather_cpu.h"

#include <algorithm>
#include <cstring>

#include "gadgets/numerics/core/clones.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr int kLookAhead = 16;  // data are fetched this many samples ahead

template <int Floats>
using Vector [[gnu::vector_size(Floats * sizeof(float)), gnu::may_alias]] = float;

/// The part of a footprint that lies in a tile along one axis: points [at, at + n) of the tile, kernel weights from w.
struct Overlap {
  std::int32_t at, n;
  const float* w;
};

/// The first point of a footprint, counted from the tile's first point.
ECHOTRAIN_INLINE std::int32_t place(const GatherWork& work, int axis, std::int32_t start) {
  const std::int32_t a = start - work.origin[axis];
  return a >= work.extent[axis] ? a - work.grid[axis] : a;  // it reaches this tile around the grid's end
}

ECHOTRAIN_INLINE Overlap overlap(const GatherWork& work, int axis, std::int32_t start, const float* kernel) {
  const std::int32_t a = place(work, axis, start);
  const std::int32_t low = std::max(0, -a), high = std::min(work.width, work.extent[axis] - a);
  return {a + low, high - low, kernel + low};
}

/// Calls add(s, x, kernel along x, y, z) for each sample of the list.
template <int Dims, class Add>
ECHOTRAIN_INLINE void for_samples(const GatherWork& work, const Add& add) {
  static constexpr float kOne = 1;
  const std::int32_t width = work.width, record = Dims * width;
  for (std::int32_t i = 0; i < work.count; ++i) {
    const std::int64_t s = work.list[i];
    if (i + kLookAhead < work.count) {
      const std::int64_t ahead = work.list[i + kLookAhead];
      __builtin_prefetch(work.starts + ahead * Dims);
      __builtin_prefetch(work.kernel + ahead * record);
      __builtin_prefetch(work.data + ahead * work.data_stride);
    }
    const std::int32_t* start = work.starts + s * Dims;
    const float* kernel = work.kernel + s * record;
    const Overlap z = Dims > 2 ? overlap(work, 0, start[0], kernel) : Overlap{0, 1, &kOne};
    const Overlap y = Dims > 1 ? overlap(work, 1, start[Dims - 2], kernel + (Dims - 2) * width) : Overlap{0, 1, &kOne};
    add(s, place(work, 2, start[Dims - 1]), kernel + (Dims - 1) * width, y, z);
  }
}

/// Calls row(k, j) for each row of a footprint, in loops of fixed length for a whole footprint.
template <int Dims, int Width, class Row>
ECHOTRAIN_INLINE void for_footprint(const Overlap& y, const Overlap& z, const Row& row) {
  constexpr int kZ = Dims > 2 ? Width : 1, kY = Dims > 1 ? Width : 1;
  if (y.n == kY && z.n == kZ) {
    for (std::int32_t k = 0; k < kZ; ++k)
#pragma GCC unroll 8
      for (std::int32_t j = 0; j < kY; ++j) row(k, j);
  } else {
    for (std::int32_t k = 0; k < z.n; ++k)
      for (std::int32_t j = 0; j < y.n; ++j) row(k, j);
  }
}

/// Gathers several coils: a point's coils lie side by side, in as many vectors as they need, which are worked on one
/// after another, each with its row of the footprint in registers.
template <int Coils, int Dims, int Width, int kVectorBytes>
requires(Coils > 1) ECHOTRAIN_INLINE void gather_group(const GatherWork work, const GatherLayout layout, float* sum) {
  constexpr int kFloats = std::min<int>(2 * Coils, kVectorBytes / sizeof(float)), kParts = 2 * Coils / kFloats;
  using Value = Vector<kFloats>;
  float padded[2 * Coils] = {};  // for groups of fewer coils
  for_samples<Dims>(work, [&](std::int64_t s, std::int32_t x, const float* wx, const Overlap& y,
                              const Overlap& z) ECHOTRAIN_INLINE_LAMBDA {
    const float* data = work.data + s * work.data_stride;
    if (work.coils != Coils) data = std::copy_n(data, 2 * work.coils, padded) - 2 * work.coils;
    Value* corner =
        reinterpret_cast<Value*>(sum) + (z.at * layout.plane + y.at * layout.row + layout.halo + x) * kParts;
    for (int part = 0; part < kParts; ++part) {
      Value value;
      std::memcpy(&value, data + part * kFloats, sizeof value);
      if (work.density != nullptr) value *= work.density[s];
      Value row[Width];
      for (int p = 0; p < Width; ++p) row[p] = value * wx[p];
      for_footprint<Dims, Width>(y, z, [&](std::int32_t k, std::int32_t j) ECHOTRAIN_INLINE_LAMBDA {
        const float w = z.w[k] * y.w[j];
        Value* to = corner + (k * layout.plane + j * layout.row) * kParts + part;
        for (int p = 0; p < Width; ++p) to[p * kParts] += w * row[p];
      });
    }
  });
}

constexpr int row_of(int width) { return width <= 4 ? 4 : 8; }

/// The first kFloats / 2 weights from w on, each twice: for the real part and for the imaginary part.
template <int kFloats>
ECHOTRAIN_INLINE void twice(const Vector<kFloats / 2>& w, Vector<kFloats>& to) {
  if constexpr (kFloats == 4)
    to = __builtin_shufflevector(w, w, 0, 0, 1, 1);
  else if constexpr (kFloats == 8)
    to = __builtin_shufflevector(w, w, 0, 0, 1, 1, 2, 2, 3, 3);
  else
    to = __builtin_shufflevector(w, w, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
}

/// Gathers one coil: a row of a footprint is as few vectors as hold it, from its first point on, with weights 0 beyond
/// its width. Most such vectors lie across two cache lines, which costs less than a larger number of aligned ones.
template <int Coils, int Dims, int Width, int kVectorBytes>
requires(Coils == 1) ECHOTRAIN_INLINE void gather_group(const GatherWork work, const GatherLayout layout, float* sum) {
  constexpr int kRow = row_of(Width), kFloats = std::min<int>(2 * kRow, kVectorBytes / sizeof(float));
  constexpr int kParts = 2 * kRow / kFloats;
  using Value = Vector<kFloats>;
  using Weights = Vector<kFloats / 2>;
  Weights inside[kParts] = {};
  for (int p = 0; p < Width; ++p) inside[p / (kFloats / 2)][p % (kFloats / 2)] = 1;

  for_samples<Dims>(work, [&](std::int64_t s, std::int32_t x, const float* wx, const Overlap& y,
                              const Overlap& z) ECHOTRAIN_INLINE_LAMBDA {
    const float* data = work.data + s * work.data_stride;
    const float density = work.density == nullptr ? 1.0f : work.density[s];
    const float re = data[0] * density, im = data[1] * density;
    Value value, row[kParts];
    for (int i = 0; i < kFloats; i += 2) value[i] = re, value[i + 1] = im;
    for (int part = 0; part < kParts; ++part) {
      Weights w;
      std::memcpy(&w, wx + part * kFloats / 2, sizeof w);
      w *= inside[part];  // this sample's weights are followed by the next one's
      twice<kFloats>(w, row[part]);
      row[part] *= value;
    }
    float* corner = sum + 2 * (z.at * layout.plane + y.at * layout.row + layout.halo + x);
    for_footprint<Dims, Width>(y, z, [&](std::int32_t k, std::int32_t j) ECHOTRAIN_INLINE_LAMBDA {
      float* to = corner + 2 * (k * layout.plane + j * layout.row);
      const float w = z.w[k] * y.w[j];
      for (int part = 0; part < kParts; ++part, to += kFloats) {
        Value points;
        std::memcpy(&points, to, sizeof points);
        points += w * row[part];
        std::memcpy(to, &points, sizeof points);
      }
    });
  });
}

template <int Coils, int Dims, int kVectorBytes>
ECHOTRAIN_INLINE void gather_widths(const GatherWork& work, const GatherLayout& layout, float* sum) {
  switch (work.width) {
    case 2:
      return gather_group<Coils, Dims, 2, kVectorBytes>(work, layout, sum);
    case 3:
      return gather_group<Coils, Dims, 3, kVectorBytes>(work, layout, sum);
    case 4:
      return gather_group<Coils, Dims, 4, kVectorBytes>(work, layout, sum);
    case 5:
      return gather_group<Coils, Dims, 5, kVectorBytes>(work, layout, sum);
    case 6:
      return gather_group<Coils, Dims, 6, kVectorBytes>(work, layout, sum);
    case 7:
      return gather_group<Coils, Dims, 7, kVectorBytes>(work, layout, sum);
    default:
      return gather_group<Coils, Dims, 8, kVectorBytes>(work, layout, sum);
  }
}

template <int Coils, int kVectorBytes>
ECHOTRAIN_INLINE void gather_dims(const GatherWork& work, const GatherLayout& layout, float* sum) {
  if (work.dims == 3) return gather_widths<Coils, 3, kVectorBytes>(work, layout, sum);
  if (work.dims == 2) return gather_widths<Coils, 2, kVectorBytes>(work, layout, sum);
  gather_widths<Coils, 1, kVectorBytes>(work, layout, sum);
}

ECHOTRAIN_VECTOR_CLONES(void gather8(const GatherWork& work, const GatherLayout& layout, float* sum),
                        gather_dims<8, kVectorBytes>(work, layout, sum))
ECHOTRAIN_VECTOR_CLONES(void gather4(const GatherWork& work, const GatherLayout& layout, float* sum),
                        gather_dims<4, kVectorBytes>(work, layout, sum))
ECHOTRAIN_VECTOR_CLONES(void gather1(const GatherWork& work, const GatherLayout& layout, float* sum),
                        gather_dims<1, kVectorBytes>(work, layout, sum))

}  // namespace

GatherLayout::GatherLayout(const std::int32_t* extent, std::int32_t width, std::int32_t group) {
  constexpr std::int32_t kLine = 8;  // points of one coil in a cache line
  halo = width - 1;
  row = group > 1 ? extent[2] + 2 * halo : (halo + extent[2] + row_of(width) - 1 + kLine - 1) / kLine * kLine;
  plane = row * extent[1];
  if (plane * group % 64 == 0) plane += kLine / 2;  // planes a power of two apart would share cache sets
  points = plane * extent[0];
}

void gather(const GatherWork& work, const GatherLayout& layout, float* sum) {
  if (work.group == 8)
    gather8(work, layout, sum);
  else if (work.group == 4)
    gather4(work, layout, sum);
  else
    gather1(work, layout, sum);
}

}  // namespace echotrain::numerics::cpu
