#include "gadgets/numerics/core/dense/hermitian_solve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gadgets/numerics/core/clones.h"

namespace echotrain::numerics {
namespace {

using cpu::kTileColumns;
using cpu::kTileRows;
using cpu::Planes;
using cpu::Tile;

constexpr std::int64_t kBlock = 32;        // columns that are factored together
constexpr std::int64_t kRowsOfPiece = 64;  // rows that a thread takes at a time

std::int64_t up_to(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/// Subtracts from rows [from, to) of columns [first, first + width) the products of the columns before these.
template <int kVectorBytes>
ECHOTRAIN_INLINE void subtract_columns(Planes<double> a, std::int64_t step, std::int64_t first, std::int64_t width,
                                       std::int64_t from, std::int64_t to) {
  const Planes<const double> all{a.re, a.im};
  for (std::int64_t i = from; i < to; i += kTileColumns)
    for (std::int64_t j = first; j < first + width; j += kTileRows) {
      Tile tile;
      cpu::tile_product<true, kVectorBytes>(all.at(j), all.at(i), first, {1, step, step}, tile);
      for (std::int64_t p = 0; p < kTileRows; ++p)
        for (std::int64_t q = 0; q < std::min(kTileColumns, to - i); ++q) {
          a.re[(j + p) * step + i + q] -= tile.re[p][q];
          a.im[(j + p) * step + i + q] -= tile.im[p][q];
        }
    }
}

ECHOTRAIN_VECTOR_CLONES(void subtract_columns_before(Planes<double> a, std::int64_t step, std::int64_t first,
                                                     std::int64_t width, std::int64_t from, std::int64_t to),
                        subtract_columns<kVectorBytes>(a, step, first, width, from, to))

/// y -= x * (re + i im)
ECHOTRAIN_INLINE void subtract_multiple(Planes<const double> x, double re, double im, std::int64_t n,
                                        Planes<double> y) {
  for (std::int64_t i = 0; i < n; ++i) {
    y.re[i] -= x.re[i] * re - x.im[i] * im;
    y.im[i] -= x.re[i] * im + x.im[i] * re;
  }
}

/// Multiplies rows [from, to) of columns [first, first + width) by the inverse of the conjugate transpose of these
/// columns' triangle.
ECHOTRAIN_CLONES void divide_by_triangle(Planes<double> a, std::int64_t step, std::int64_t first, std::int64_t width,
                                         std::int64_t from, std::int64_t to) {
  for (std::int64_t j = first; j < first + width; ++j) {
    const Planes<double> column = a.at(j * step + from);
    for (std::int64_t k = first; k < j; ++k)
      subtract_multiple({a.re + k * step + from, a.im + k * step + from}, a.re[k * step + j], -a.im[k * step + j],
                        to - from, column);
    const double by = 1 / a.re[j * step + j];
    for (std::int64_t i = 0; i < to - from; ++i) {
      column.re[i] *= by;
      column.im[i] *= by;
    }
  }
}

/// Divides rows [row, row + kTileColumns) of the right-hand sides, which are divided by L^H, by L too.
template <int kVectorBytes>
ECHOTRAIN_INLINE void divide_columns(Planes<double> a, std::int64_t step, std::int64_t columns, std::int64_t row) {
  const Planes<const double> all{a.re, a.im};
  for (std::int64_t j = columns - kTileRows; j >= 0; j -= kTileRows) {
    const std::int64_t after = j + kTileRows;
    Tile tile;
    cpu::tile_product<false, kVectorBytes>(all.at(j * step + after), all.at(after * step + row), columns - after,
                                           {step, 1, step}, tile);
    for (std::int64_t p = kTileRows - 1; p >= 0; --p) {
      const Planes<double> to = a.at((j + p) * step + row);
      for (std::int64_t q = 0; q < kTileColumns; ++q) {
        to.re[q] -= tile.re[p][q];
        to.im[q] -= tile.im[p][q];
      }
      for (std::int64_t k = p + 1; k < kTileRows; ++k)
        subtract_multiple(all.at((j + k) * step + row), a.re[(j + p) * step + j + k], a.im[(j + p) * step + j + k],
                          kTileColumns, to);
      const double by = 1 / a.re[(j + p) * step + j + p];
      for (std::int64_t q = 0; q < kTileColumns; ++q) {
        to.re[q] *= by;
        to.im[q] *= by;
      }
    }
  }
}

ECHOTRAIN_VECTOR_CLONES(void divide_by_factor(Planes<double> a, std::int64_t step, std::int64_t columns,
                                              std::int64_t row),
                        divide_columns<kVectorBytes>(a, step, columns, row))

}  // namespace

HermitianSystem::HermitianSystem(Context& context, std::int64_t n, std::int64_t m)
    : n_(n), m_(m), padded_(up_to(n, kTileRows)), step_(up_to(padded_ + m, kTileColumns) + kTileColumns) {
  if (n < 1 || m < 1) throw std::invalid_argument("a system has at least one unknown and one right-hand side");
  memory_ = context.allocate_host<double>({2, padded_, step_});
  std::fill_n(memory_.data(), memory_.size(), 0.0);
}

void HermitianSystem::factor_block(std::int64_t first, std::int64_t width, const std::vector<double>& diagonal) {
  const Planes<double> a = planes();
  const std::int64_t last = first + width;
  const double rounding = static_cast<double>(n_) * std::numeric_limits<double>::epsilon();
  for (std::int64_t j = first; j < last; ++j) {
    const Planes<double> to = a.at(j * step_ + j);
    for (std::int64_t k = first; k < j; ++k) {
      const Planes<double> from = a.at(k * step_ + j);
      subtract_multiple({from.re, from.im}, from.re[0], -from.im[0], last - j, to);
    }
    const double pivot = to.re[0];
    if (!(pivot > rounding * diagonal[static_cast<std::size_t>(j)] && std::isfinite(pivot)))
      throw std::invalid_argument("the matrix of a system of equations is not positive definite");
    const double by = 1 / std::sqrt(pivot);
    for (std::int64_t i = 0; i < last - j; ++i) {
      to.re[i] *= by;
      to.im[i] *= by;
    }
    to.im[0] = 0;
  }
}

void HermitianSystem::solve(ThreadPool& threads) {
  const Planes<double> a = planes();
  for (std::int64_t j = n_; j < padded_; ++j) a.re[j * step_ + j] = 1;
  std::vector<double> diagonal;
  for (std::int64_t j = 0; j < padded_; ++j) diagonal.push_back(a.re[j * step_ + j]);
  const std::int64_t rows = padded_ + m_;
  for (std::int64_t first = 0; first < padded_; first += kBlock) {
    threads.check_stop();
    const std::int64_t width = std::min(kBlock, padded_ - first), below = first + width;
    subtract_columns_before(a, step_, first, width, first, below);
    factor_block(first, width, diagonal);
    threads.parallel_for((rows - below + kRowsOfPiece - 1) / kRowsOfPiece, 1,
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t piece = begin; piece < end; ++piece) {
                             const std::int64_t from = below + piece * kRowsOfPiece;
                             const std::int64_t to = std::min(rows, from + kRowsOfPiece);
                             subtract_columns_before(a, step_, first, width, from, to);
                             divide_by_triangle(a, step_, first, width, from, to);
                           }
                         });
  }
  threads.parallel_for((m_ + kTileColumns - 1) / kTileColumns, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece)
      divide_by_factor(a, step_, padded_, padded_ + piece * kTileColumns);
  });
}

}  // namespace echotrain::numerics
