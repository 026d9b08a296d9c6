// The ladder is that of optimisations in Gregerson, "Implementing Fast MRI Gridding on GPUs via CUDA", 2008, sections 4
// to 6 (docs/seeds.md), on today's GPUs: the seed's problem, and a kernel for every rung.
#pragma once

#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::seed {

constexpr int kGrid = 512;         ///< points along each axis
constexpr int kWindow = 8;         ///< points of the window along each axis
constexpr int kTablePerCell = 10;  ///< entries of the kernel table per grid cell
constexpr int kSector = 32;        ///< points of a sector along each axis (section 4.2)
constexpr int kTableSize = 64;     ///< more than the window's half diagonal has entries

/// x and y in grid points, at least half a window away from the grid's edges.
struct Sample {
  float x, y, re, im;
};

enum class Rung {
  naive_input_driven,  ///< figure 1: a block per sample, its threads add to the grid in global memory
  cached_input,        ///< figure 2: a block takes consecutive samples, which it stages in shared memory
  output_driven,       ///< figure 3: a thread per grid point looks at all samples, staged in shared memory
  aligned_layout,      ///< cached_input with 16-byte samples and separate planes of real and imaginary parts
  constant_table,      ///< aligned_layout with the kernel from a table in constant memory
  sector_tiles,        ///< figure 4: constant_table by sectors, summed in shared memory; one block per multiprocessor
  two_blocks_per_sm    ///< sector_tiles with two blocks per multiprocessor
};

/// exp(-(r / radius)^2 / 2) of the seed's listing, with the window's half width as radius; r in grid points.
template <class T>
constexpr T gaussian_exponent(T squared_distance) {
  constexpr T kRadius = T(kWindow) / 2;
  return squared_distance / (-2 * kRadius * kRadius);
}

/// gaussian(i / kTablePerCell), looked up by the distance rounded down, as in the listing.
std::vector<float> gaussian_table();

/// A problem on the GPU.
class Ladder {
 public:
  Ladder(numerics::Context& context, const std::vector<Sample>& samples);
  /// Enqueues one gridding, the clearing of the grid included where a rung needs it. Sorting into sectors was done on
  /// the host beforehand, as in the seed.
  void run(Rung rung);
  /// The grid [y, x] of the last run.
  std::vector<numerics::cfloat> grid(Rung rung);

 private:
  void run_sectors(int blocks_per_multiprocessor);

  numerics::Context& context_;
  std::int32_t count_;
  numerics::Array<float> samples_, sorted_;  ///< [sample, 4]; sorted by sector
  numerics::Array<std::int32_t> starts_;     ///< [sector + 1], into sorted
  numerics::Array<float> grid_;              ///< [y, x, 2] or [2, y, x]
  numerics::Array<float> padded_;            ///< [sector, 2, tile]
};

}  // namespace echotrain::seed
