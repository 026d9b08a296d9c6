// The tiles of the grid on the device, as gridding sums them.
#pragma once

#include <cstdint>

#include "gadgets/numerics/transforms/nufft/nufft_plan.h"
#include "gadgets/numerics/transforms/nufft/nufft_window_cuda.cuh"

namespace echotrain::numerics::cuda {

/// The points of a full tile along each axis, slowest first, by dimensions.
template <int Dims>
struct TileShape;
template <>
struct TileShape<1> {
  static constexpr int kX = 64, kY = 1, kZ = 1;
};
template <>
struct TileShape<2> {
  static constexpr int kX = 8, kY = 8, kZ = 1;
};
template <>
struct TileShape<3> {
  static constexpr int kX = 4, kY = 4, kZ = 4;
};

/// The parts of a plan that the kernels need, passed to them by value.
struct PlanView {
  Tiling tiling;
  Windows windows;
  const Footprint* footprints;
  const std::int32_t* list;
  const Piece* pieces;
  std::int32_t piece_count;
};

struct TilePlace {
  std::int32_t origin[3], extent[3];
};

__device__ inline TilePlace place_of(const Tiling& t, std::int32_t tile) {
  const std::int32_t at[3] = {tile / t.tiles[2] / t.tiles[1], tile / t.tiles[2] % t.tiles[1], tile % t.tiles[2]};
  TilePlace place;
  for (int a = 0; a < 3; ++a) {
    place.origin[a] = at[a] * t.tile[a];
    place.extent[a] = min(t.tile[a], t.grid[a] - place.origin[a]);
  }
  return place;
}

/// The number of points of the whole grid.
__device__ inline std::int64_t grid_points(const Tiling& t) {
  return static_cast<std::int64_t>(t.grid[0]) * t.grid[1] * t.grid[2];
}

/// Sets `offset` to the place of a tile's point in the grid. Returns false where the tile ends before that point.
template <int Dims>
__device__ __forceinline__ bool find_point(const Tiling& t, const TilePlace& place, int point, std::int64_t& offset) {
  using T = TileShape<Dims>;
  const int px = point % T::kX, py = point / T::kX % T::kY, pz = point / (T::kX * T::kY);
  if (px >= place.extent[2] || py >= place.extent[1] || pz >= place.extent[0]) return false;
  offset = ((static_cast<std::int64_t>(place.origin[0]) + pz) * t.grid[1] + place.origin[1] + py) * t.grid[2] +
           place.origin[2] + px;
  return true;
}

}  // namespace echotrain::numerics::cuda
