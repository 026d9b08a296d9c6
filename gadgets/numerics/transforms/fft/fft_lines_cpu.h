// Copies between columns of a row-major array and contiguous lines, which FFTW transforms much faster.
#pragma once

#include <cstdint>

#include "gadgets/numerics/core/array.h"

namespace echotrain::numerics::cpu {

/// lines[c * distance + i] = corner[i * stride + c] for i < n, c < width.
void columns_to_lines(const cfloat* corner, std::int64_t stride, std::int64_t n, std::int64_t width, cfloat* lines,
                      std::int64_t distance);
/// The reverse of columns_to_lines().
void lines_to_columns(const cfloat* lines, std::int64_t distance, std::int64_t n, std::int64_t width, cfloat* corner,
                      std::int64_t stride);
/// As above, times scale * along[i] * across[c].
void lines_to_columns(const cfloat* lines, std::int64_t distance, std::int64_t n, std::int64_t width, cfloat* corner,
                      std::int64_t stride, float scale, const float* along, const float* across);

}  // namespace echotrain::numerics::cpu
