// Blocks of series on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/extents.h"
#include "gadgets/numerics/inverse/sparse/low_rank.h"

namespace echotrain::numerics {

/// One block as a matrix.
struct LowRankBlock {
  std::int64_t first[3], extent[3];  ///< z, y, x, counted from the shift
  ECHOTRAIN_HOST_DEVICE std::int64_t voxels() const { return extent[0] * extent[1] * extent[2]; }
};

struct LowRankGrid {
  std::int64_t frames;
  std::int64_t n[3], block[3], blocks[3], shift[3];  ///< z, y, x

  ECHOTRAIN_HOST_DEVICE std::int64_t count() const { return blocks[0] * blocks[1] * blocks[2]; }
  ECHOTRAIN_HOST_DEVICE std::int64_t frame_size() const { return n[0] * n[1] * n[2]; }
  ECHOTRAIN_HOST_DEVICE LowRankBlock at(std::int64_t number) const {
    LowRankBlock b{};
    for (int a = 2; a >= 0; --a) {
      b.first[a] = number % blocks[a] * block[a];
      b.extent[a] = b.first[a] + block[a] < n[a] ? block[a] : n[a] - b.first[a];
      number /= blocks[a];
    }
    return b;
  }
  /// The place of a voxel of a block in a frame.
  ECHOTRAIN_HOST_DEVICE std::int64_t voxel(const LowRankBlock& b, std::int64_t i) const {
    std::int64_t at[3];
    for (int a = 2; a >= 0; --a) {
      at[a] = (b.first[a] + i % b.extent[a] + shift[a]) % n[a];
      i /= b.extent[a];
    }
    return (at[0] * n[1] + at[1]) * n[2] + at[2];
  }
};

// clang-format off
ECHOTRAIN_BACKENDS(
/// Shrinks all blocks where `sums` is null, else leaves them and sets sums[block] to the sum of singular values.
void low_rank(Context& context, const LowRankGrid& grid, double threshold, cfloat* series, double* sums);
)
// clang-format on

}  // namespace echotrain::numerics
