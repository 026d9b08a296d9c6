// The innermost loop of gridding on the CPU: adds samples to a tile that lies in a buffer with a halo.
#pragma once

#include <cstdint>

namespace echotrain::numerics::cpu {

/// A stretch of a tile's list, for a group of 8, 4 or 1 coils.
struct GatherWork {
  const std::int32_t* list;
  std::int32_t count;
  const std::int32_t* starts;  ///< [sample, dims]
  const float* kernel;         ///< [sample, dims, width], and kWeightPadding readable floats behind
  const float* density;        ///< or nullptr
  const float* data;           ///< the group's first coil's real part of sample 0
  std::int64_t data_stride;    ///< floats from sample to sample
  std::int32_t group, coils;   ///< coils in the buffer, and the number of them that have samples
  std::int32_t dims, width;
  std::int32_t origin[3], extent[3], grid[3];  ///< origin of the tile, its extents, and the grid's, slowest axis first
};

/// The layout of the tile's points in a buffer [z, y, x, group] (complex). Along x a footprint may reach into the halo,
/// so that every row of it is added whole; along y and z it is cut at the tile's faces.
struct GatherLayout {
  std::int32_t halo;        ///< points of a row before the tile's first
  std::int32_t row, plane;  ///< points from row to row and from plane to plane
  std::int32_t points;      ///< all points
  GatherLayout(const std::int32_t* extent, std::int32_t width, std::int32_t group);
};

/// Adds the samples to `sum`, which is aligned to 64 bytes, in the list's order.
void gather(const GatherWork& work, const GatherLayout& layout, float* sum);

}  // namespace echotrain::numerics::cpu
