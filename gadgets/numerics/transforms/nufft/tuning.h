// The way a NUFFT plan cuts its work into tiles of the grid and pieces of their samples. It changes the order of sums
// and so the last bits of a result, never its accuracy. The software of Sumanaweera and Liu, "Medical Image
// Reconstruction with the FFT", GPU Gems 2, chapter 48, section 48.4.3, tries several ways on each machine. Here that
// gains less than 5 % (docs/performance.md), so the way is fixed, and the same problem gives the same bits on every
// machine of a kind.
#pragma once

#include <cstdint>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

struct NufftTuning {
  std::int32_t tile[3] = {1, 1, 1};  ///< grid points of a full tile, slowest axis first; fixed on CUDA
  std::int64_t most_piece = 512;     ///< samples that are gathered in one piece of a tile
  bool operator==(const NufftTuning&) const = default;
};

/// The choice for every problem. dims: 1..3. On the CPU a tile and its halo stay in the level-2 cache for eight coils;
/// CUDA's kernels are written for tiles of kTilePoints. A piece is summed in one chain, whose rounding grows with its
/// length.
NufftTuning default_tuning(int dims, Backend backend);

}  // namespace echotrain::numerics
