#include "gadgets/numerics/transforms/fft/fft_lines_cpu.h"

#include <algorithm>

#include "gadgets/numerics/core/clones.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kEdge = 4;                                  // edge of the squares that are transposed in
                                                                   // registers
using Four [[gnu::vector_size(kEdge * sizeof(cfloat))]] = double;  // each double holds the bits of a complex number
/// Four at any complex number's address. (A copy by memcpy() would go through memory, in halves, with AVX2.)
struct Anywhere {
  using Four [[gnu::vector_size(kEdge * sizeof(cfloat)), gnu::aligned(4), gnu::may_alias]] = double;
};

/// to[j, i] = from[i, j]
ECHOTRAIN_INLINE void transpose_square(const cfloat* from, std::int64_t from_stride, cfloat* to,
                                       std::int64_t to_stride) {
  Four row[kEdge];
#pragma GCC unroll 4
  for (int i = 0; i < kEdge; ++i) row[i] = *reinterpret_cast<const Anywhere::Four*>(from + i * from_stride);
  const Four a = __builtin_shufflevector(row[0], row[1], 0, 4, 2, 6);
  const Four b = __builtin_shufflevector(row[0], row[1], 1, 5, 3, 7);
  const Four c = __builtin_shufflevector(row[2], row[3], 0, 4, 2, 6);
  const Four d = __builtin_shufflevector(row[2], row[3], 1, 5, 3, 7);
  row[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  row[1] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  row[2] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  row[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
#pragma GCC unroll 4
  for (int i = 0; i < kEdge; ++i) *reinterpret_cast<Anywhere::Four*>(to + i * to_stride) = row[i];
}

/// to[j, i] = from[i, j] for i < rows, j < columns.
ECHOTRAIN_INLINE void transpose(const cfloat* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
                                cfloat* to, std::int64_t to_stride) {
  const std::int64_t whole_rows = rows / kEdge * kEdge, whole_columns = columns / kEdge * kEdge;
  for (std::int64_t i = 0; i < whole_rows; i += kEdge)
    for (std::int64_t j = 0; j < whole_columns; j += kEdge)
      transpose_square(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j)
      to[j * to_stride + i] = from[i * from_stride + j];
}

}  // namespace

ECHOTRAIN_CLONES void columns_to_lines(const cfloat* corner, std::int64_t stride, std::int64_t n, std::int64_t width,
                                       cfloat* lines, std::int64_t distance) {
  transpose(corner, stride, n, width, lines, distance);
}

ECHOTRAIN_CLONES void lines_to_columns(const cfloat* lines, std::int64_t distance, std::int64_t n, std::int64_t width,
                                       cfloat* corner, std::int64_t stride) {
  // Whole rows are written at once, because rows far apart share cache sets.
  for (std::int64_t i = 0; i < n; i += kEdge)
    transpose(lines + i, distance, width, std::min(kEdge, n - i), corner + i * stride, stride);
}

ECHOTRAIN_CLONES void lines_to_columns(const cfloat* lines, std::int64_t distance, std::int64_t n, std::int64_t width,
                                       cfloat* corner, std::int64_t stride, float scale, const float* along,
                                       const float* across) {
  constexpr std::int64_t kWidest = 16;
  cfloat rows[kEdge * kWidest];
  for (std::int64_t c = 0; c < width; c += kWidest) {
    const std::int64_t columns = std::min(kWidest, width - c);
    for (std::int64_t i = 0; i < n; i += kEdge) {
      const std::int64_t count = std::min(kEdge, n - i);
      transpose(lines + c * distance + i, distance, columns, count, rows, kWidest);
      for (std::int64_t k = 0; k < count; ++k) {
        const float factor = scale * along[i + k];
        const auto* from = reinterpret_cast<const float*>(rows + k * kWidest);
        auto* to = reinterpret_cast<float*>(corner + (i + k) * stride + c);
        for (std::int64_t j = 0; j < columns; ++j) {
          to[2 * j] = from[2 * j] * (factor * across[c + j]);
          to[2 * j + 1] = from[2 * j + 1] * (factor * across[c + j]);
        }
      }
    }
  }
}

}  // namespace echotrain::numerics::cpu
