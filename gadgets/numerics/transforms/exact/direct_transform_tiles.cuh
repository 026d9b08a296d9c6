// The layout of the direct transform's sums on the tensor cores, and the phases they are made from.
//
// A block works on kGroups groups of 8 neighbouring voxels along y (the columns: their real and imaginary parts are the
// rows of the matrix product's left factor) and on `rows` cosines and sines along x. Its sums lie as the tensor cores'
// results do: each warp has 2 m-tiles (a group each), each of these `rows` / 8 n-tiles, each of those 32 lanes with 4
// numbers: real part of column lane / 4 at rows 2 (lane % 4) and the next one, then the imaginary part.
#pragma once

#include "gadgets/numerics/transforms/exact/direct_transform_ops.h"

namespace echotrain::numerics::cuda {

constexpr int kGroups = 16, kGroupColumns = 8;
constexpr int kWarps = kGroups / 2;

struct DirectTiles {
  int rows = 128;                            ///< rows of a block: 64 or 128
  std::int64_t blocks = 1;                   ///< blocks of rows
  std::int64_t y0 = 0, z0 = 0, per_row = 1;  ///< the columns' first position; groups of a row along y
  std::int64_t groups = 1, tiles = 1;        ///< groups and tiles of columns
  std::int64_t floats() const { return blocks * tiles * kGroups * kGroupColumns * 2 * rows; }  ///< sums of one coil
};

DirectTiles direct_tiles(Context& context, const DirectGrid& grid);

/// Fractions of a turn in units of 2^-64: multiples of them are exact, and whole turns drop out.
__device__ inline std::int64_t turns(double k) { return __double2ll_rn((k - rint(k)) * 0x1p64); }

/// The fraction in units of 2^-32.
__device__ inline std::uint32_t top_of(std::int64_t t) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(t) >> 32);
}

/// exp(2 pi i t) for t in units of 2^-32 turns; error 1e-7 (Cephes' polynomials).
__device__ inline float2 wave(std::uint32_t t) {
  const std::uint32_t quarter = (t + 0x20000000u) >> 30;
  const float angle = static_cast<float>(static_cast<std::int32_t>(t - (quarter << 30))) * 1.4629180792671596e-9f;
  const float z = angle * angle;
  const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * angle + angle;
  const float c =
      ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
  const float re = quarter & 1 ? s : c, im = quarter & 1 ? c : s;
  return make_float2(__uint_as_float(__float_as_uint(re) ^ (((quarter + 1) & 2) << 30)),
                     __uint_as_float(__float_as_uint(im) ^ ((quarter & 2) << 30)));
}

/// wave() by the special-function units; error 1e-6.
__device__ inline float2 quick_wave(std::uint32_t t) {
  float2 e;
  __sincosf(static_cast<float>(static_cast<std::int32_t>(t)) * 1.4629180792671596e-9f, &e.y, &e.x);
  return e;
}

}  // namespace echotrain::numerics::cuda
