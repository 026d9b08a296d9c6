// Locally low-rank series: thresholding of singular values, block by block.
#pragma once

#include <array>
#include <cstdint>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// The blocks that a series is cut into.
struct LowRankBlocks {
  std::int64_t extent = 8;  ///< extent of a block along each axis longer than 1; the last blocks of an axis may be
                            ///< smaller
  std::array<std::int64_t, 3> shift{};  ///< z, y, x: the first block begins at this voxel, space being periodic
};
/// The number of blocks along z, y and x together.
std::int64_t count(const LowRankBlocks& blocks, const Shape& series);

/// Each block, as a matrix [voxel, frame] U diag(s) V^H, becomes U diag(max(0, s - threshold)) V^H: the proximal map of
/// `threshold` times the sum of its singular values. The singular values are found in float64 as roots of eigenvalues
/// of X^H X (or X X^H, the smaller one), so that those below 1e-8 of the largest are lost. series: [frame, z, y, x].
/// The smaller extent of a block, voxels or frames, is at most kMostLowRank, and a block has at most 524288 numbers.
/// Asynchronous on CUDA. Throws std::invalid_argument on shapes and options that do not fit. Source: Cai, Candes, Shen,
/// SIAM J. Optim. 20, 2010; blocks: Trzasko and Manduca, ISMRM 2011.
inline constexpr std::int64_t kMostLowRank = 128;
void shrink_singular_values(Context& context, const LowRankBlocks& blocks, double threshold, DeviceView<cfloat> series);

/// The sum of all blocks' singular values. Waits for the device.
double sum_of_singular_values(Context& context, const LowRankBlocks& blocks, DeviceView<const cfloat> series);

}  // namespace echotrain::numerics
