// Products of complex matrices whose real and imaginary parts are kept apart, a tile of the result at a time, so that
// all of it stays in registers. For functions that are compiled for several machines (core/clones.h).
#pragma once

#include <cstdint>
#include <cstring>

#include "gadgets/numerics/core/clones.h"

namespace echotrain::numerics::cpu {

constexpr std::int64_t kTileRows = 4, kTileColumns = 8;

/// The real and the imaginary parts of complex numbers, in two arrays.
template <class T>
struct Planes {
  T* re = nullptr;
  T* im = nullptr;
  Planes at(std::int64_t i) const { return {re + i, im + i}; }
};

/// A tile of a result.
struct Tile {
  alignas(64) double re[kTileRows][kTileColumns], im[kTileRows][kTileColumns];
};

/// Strides: element (p, k) of one factor lies at p * row + k * step, element (k, q) of the other at k * other_step + q.
struct TileSteps {
  std::int64_t row, step, other_step;
};

/// tile(p, q) = sum over k < n of a(p, k) b(k, q), where a is conjugated if `conjugate`. Sums run in the order of k. A
/// register's width of columns is done at a time: four rows of these leave room for both factors.
template <bool conjugate, int kVectorBytes>
ECHOTRAIN_INLINE void tile_product(Planes<const double> a, Planes<const double> b, std::int64_t n,
                                   const TileSteps& steps, Tile& tile) {
  typedef double Lanes __attribute__((vector_size(kVectorBytes)));
  constexpr std::int64_t kLanes = kVectorBytes / sizeof(double);
  static_assert(kTileColumns % kLanes == 0);
  const std::int64_t row = steps.row;
  for (std::int64_t q = 0; q < kTileColumns; q += kLanes) {
    Lanes re0{}, re1{}, re2{}, re3{}, im0{}, im1{}, im2{}, im3{};
    for (std::int64_t k = 0; k < n; ++k) {
      Lanes br, bi;  // b has the alignment of doubles
      std::memcpy(&br, b.re + k * steps.other_step + q, sizeof(br));
      std::memcpy(&bi, b.im + k * steps.other_step + q, sizeof(bi));
      const double* ar = a.re + k * steps.step;
      const double* ai = a.im + k * steps.step;
      const auto add = [&](double r, double i, Lanes& re, Lanes& im) ECHOTRAIN_INLINE_LAMBDA {
        if constexpr (conjugate) {
          re += r * br + i * bi;
          im += r * bi - i * br;
        } else {
          re += r * br - i * bi;
          im += r * bi + i * br;
        }
      };
      add(ar[0], ai[0], re0, im0);
      add(ar[row], ai[row], re1, im1);
      add(ar[2 * row], ai[2 * row], re2, im2);
      add(ar[3 * row], ai[3 * row], re3, im3);
    }
    const Lanes re[] = {re0, re1, re2, re3}, im[] = {im0, im1, im2, im3};
    for (std::int64_t p = 0; p < kTileRows; ++p) {
      std::memcpy(&tile.re[p][q], &re[p], sizeof(Lanes));
      std::memcpy(&tile.im[p][q], &im[p], sizeof(Lanes));
    }
  }
}

}  // namespace echotrain::numerics::cpu
