// The homes of a plan's samples, by which these are sorted, and the ways from homes to the tiles that footprints touch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gadgets/numerics/transforms/nufft/nufft_plan.h"

namespace echotrain::numerics::cuda {

/// The sort keys of samples: their home, the tile that holds the first point of a footprint. Homes of a bin, 1, 2 or 4
/// along each axis, have consecutive numbers, so that one order serves the tiles' lists and interpolation. A bin at the
/// grid's end may have homes beyond it, which hold no sample. Samples that lie nowhere come last.
struct Homes {
  std::int32_t in_bin[3];  ///< homes of a bin along each axis
  std::int32_t bins[3];
  std::int32_t reach[3];  ///< the most tiles along each axis that a footprint touches
  __host__ __device__ int of_bin() const { return in_bin[0] * in_bin[1] * in_bin[2]; }
  __host__ __device__ std::int32_t count() const { return bins[0] * bins[1] * bins[2] * of_bin(); }
  __host__ __device__ int ways() const { return reach[0] * reach[1] * reach[2]; }
  /// `at`: the tile's index along each axis.
  __host__ __device__ std::int32_t number(const std::int32_t (&at)[3]) const {
    std::int32_t bin = 0, inside = 0;
    for (int a = 0; a < 3; ++a) {
      bin = bin * bins[a] + at[a] / in_bin[a];
      inside = inside * in_bin[a] + at[a] % in_bin[a];
    }
    return bin * of_bin() + inside;
  }
  __host__ __device__ void find(std::int32_t number, std::int32_t (&at)[3]) const {
    std::int32_t bin = number / of_bin(), inside = number % of_bin();
    for (int a = 2; a >= 0; --a) {
      at[a] = bin % bins[a] * in_bin[a] + inside % in_bin[a];
      bin /= bins[a];
      inside /= in_bin[a];
    }
  }
};

inline Homes homes_of(const Tiling& t) {
  Homes h{};
  for (int a = 0; a < 3; ++a) {
    const bool there = a >= 3 - t.dims;
    // Tiles of a small grid are smaller, and so are its bins.
    const std::int32_t full = t.dims == 1 ? 64 : t.dims == 2 ? 8 : 4;
    h.in_bin[a] = there ? bin_edge(a, t.dims, t.width) / full : 1;
    h.bins[a] = (t.tiles[a] + h.in_bin[a] - 1) / h.in_bin[a];
    const std::int32_t most = (t.width - 1 + t.tile[a] - 1) / t.tile[a] + 1 + (t.grid[a] % t.tile[a] == 0 ? 0 : 1);
    h.reach[a] = there ? std::min(most, t.tiles[a]) : 1;
  }
  return h;
}

/// The number of tiles along an axis that a footprint touches: its home, and those behind it, also around the grid's
/// end.
__host__ __device__ inline int touched(const Tiling& t, int axis, std::int32_t start) {
  if (axis < 3 - t.dims) return 1;
  const std::int32_t end = start + t.width, tile = t.tile[axis], first = start / tile;
  if (end <= t.grid[axis]) return (end - 1) / tile - first + 1;
  return t.tiles[axis] - first + (end - t.grid[axis] - 1) / tile + 1;
}
/// The numbers of tiles along all axes, 4 bits each: at most kWidest. `start`: 0 along axes that do not exist.
__host__ __device__ inline std::uint16_t touched(const Tiling& t, const std::int32_t (&start)[3]) {
  return static_cast<std::uint16_t>(touched(t, 0, start[0]) << 8 | touched(t, 1, start[1]) << 4 |
                                    touched(t, 2, start[2]));
}

/// A way leads from a home to a tile that its samples may touch: so many tiles ahead along each axis.
struct Way {
  int ahead[3];
  __host__ __device__ bool taken(std::uint16_t touched) const {
    return ahead[0] < (touched >> 8) && ahead[1] < (touched >> 4 & 15) && ahead[2] < (touched & 15);
  }
  /// Steps to the next way, the last axis first.
  __host__ __device__ void advance(const Homes& h) {
    if (++ahead[2] < h.reach[2]) return;
    ahead[2] = 0;
    if (++ahead[1] < h.reach[1]) return;
    ahead[1] = 0;
    ++ahead[0];
  }
};
__host__ __device__ inline Way way_of(const Homes& h, int number) {
  return {{number / (h.reach[1] * h.reach[2]), number / h.reach[2] % h.reach[1], number % h.reach[2]}};
}
/// The tile at a way's end, x fastest.
__host__ __device__ inline std::int32_t end_of(const Tiling& t, const std::int32_t (&home)[3], const Way& way) {
  std::int32_t tile = 0;
  for (int a = 0; a < 3; ++a) {
    const std::int32_t at = home[a] + way.ahead[a];
    tile = tile * t.tiles[a] + (at < t.tiles[a] ? at : at - t.tiles[a]);
  }
  return tile;
}
/// The home from which a way leads to the tile.
__host__ __device__ inline std::int32_t begin_of(const Tiling& t, const Homes& h, const std::int32_t (&tile)[3],
                                                 const Way& way) {
  std::int32_t home[3];
  for (int a = 0; a < 3; ++a) home[a] = tile[a] - way.ahead[a] + (tile[a] < way.ahead[a] ? t.tiles[a] : 0);
  return h.number(home);
}

}  // namespace echotrain::numerics::cuda
