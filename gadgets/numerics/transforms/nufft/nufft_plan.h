// The contents of a NUFFT plan, for the two backends.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/transforms/fft/fft_ops.h"
#include "gadgets/numerics/transforms/nufft/kaiser_bessel.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"

namespace echotrain::numerics {

/// Grid points of a tile on CUDA: 64, 8 x 8 or 4 x 4 x 4. In small tiles, a footprint touches a large part of the tile.
/// The CPU's tiles are larger (default_tuning), so that fewer samples lie in several of them.
constexpr int kTilePoints = 64;
/// Floats behind the last sample's kernel weights, so that whole vectors can be read.
constexpr int kWeightPadding = 12;

/// True if the kernel is so accurate that the rounding of long sums in fp32, as of a dense centre, would exceed its
/// error. Sums are then taken in short stretches, which are added.
constexpr bool sums_in_stretches(const NufftOptions& options) {
  return options.kernel_width >= 8 || (options.kernel_width == 7 && options.oversampling >= 1.75);
}

/// The place of a sample's footprint, for CUDA. Along each axis, slowest first, its weights are those of the window at
/// shift - width/2, shift - width/2 + 1, ... cells from the sample. 32 bytes: one sector of memory.
struct alignas(16) Footprint {
  std::int32_t start[3];  ///< first grid point; kNowhere in start[0]: the sample takes no part
  float shift[3];         ///< in [0, 1)
  std::int32_t unused[2];
  static constexpr std::int32_t kNowhere = 1 << 28;
};

/// The longest grid whose coordinates are copied to a CUDA device in 2^32 parts of a turn, once around the grid. A part
/// is a 2^21st of a cell of this grid; coordinates of longer grids are copied as float64.
constexpr std::int32_t kLongestInTurns = 1 << 11;
/// The component of a sample that lies nowhere. A coordinate of this value takes the one before it.
constexpr std::uint32_t kNoTurns = 0xffffffffu;
/// turns[sample, dims] from coordinates [sample, dims].
void to_turns(const double* coordinates, std::int64_t samples, int dims, std::uint32_t* turns);

/// The window phi along one axis as KaiserBessel::polynomial() gives it, for CUDA.
struct WindowPolynomial {
  static constexpr int kMostTerms = 16;   ///< terms that the widest window on the smallest image needs: 15
  static constexpr double kError = 2e-8;  ///< a third of fp32's rounding of 1
  float coefficients[kMostTerms];         ///< lowest power first, then zeros
};

/// The precision of CUDA's sums over tiles.
enum class Sums {
  coarse,    ///< products to 3e-4
  fine,      ///< to 4e-6
  full,      ///< fp32 precision
  stretches  ///< fp32 in short stretches, for sums_in_stretches()
};
/// The relative error of products.
constexpr double product_error(Sums sums) { return sums == Sums::coarse ? 3e-4 : sums == Sums::fine ? 4e-6 : 0; }
/// The error of the windows' polynomials relative to their peaks, and the largest number of coefficients.
constexpr double window_error(Sums sums) {
  return sums == Sums::coarse ? 1e-5 : sums == Sums::fine ? 1e-6 : WindowPolynomial::kError;
}
constexpr int window_terms(Sums sums) {
  return sums == Sums::coarse ? 8 : sums == Sums::fine ? 11 : sums == Sums::full ? 12 : WindowPolynomial::kMostTerms;
}
/// The fastest sums that add no more error than NufftOptions::slack.
Sums sums_within_slack(const NufftOptions& options, const Shape& image);

/// A stretch of a tile's list.
struct Piece {
  std::int64_t begin;   ///< into list
  std::int32_t count;   ///< 0: the tile is empty
  std::int32_t tile;    ///< the tile's number, x fastest
  std::int32_t slot;    ///< place of its partial sum; -1: straight to the grid
  std::int32_t unused;  ///< keeps the size a multiple of 8
};

/// A tile that is gathered in several pieces: slots first .. first + count - 1.
struct SplitTile {
  std::int32_t tile, first, count;
};

/// The grid and its tiles: plain numbers, passed to kernels by value. Axes slowest first; unused leading axes are 1.
struct Tiling {
  std::int32_t grid[3];
  std::int32_t tile[3];   ///< extents; tiles at the grid's end may be cut
  std::int32_t tiles[3];  ///< number of tiles per axis
  std::int32_t image[3];
  std::int32_t dims;
  std::int32_t width;
};

/// Samples by the tiles that their footprints touch.
struct TileLists {
  std::vector<std::int64_t> offsets;  ///< [tile + 1], into list
  std::vector<std::int32_t> list;     ///< sample numbers, in order within a tile
};
/// Makes the same lists for any number of threads. `starts` and `weights`: as in NufftPlan::Impl, of `count` samples;
/// those whose kernel weights are 0 lie nowhere and are in no list.
TileLists list_tiles(ThreadPool& threads, const Tiling& tiling, const std::int32_t* starts, const float* weights,
                     std::int64_t count);

/// Makes the grid and its tiles.
Tiling make_tiling(const Shape& image, const NufftOptions& options, const NufftTuning& tuning);
/// Factors 1 / Phi of the axes' image points, one axis after another.
std::vector<float> deapodization_factors(const Tiling& tiling);
/// The most samples that a piece of a tile gathers. `slot_points`: grid points of a full tile.
std::int64_t most_of_piece(const NufftTuning& tuning, std::int64_t slot_points);

/// The most samples of a bin in one piece of work; the dense centre makes several pieces.
constexpr std::int64_t kPieceOfBin = 512;

/// The edge of the bins that interpolation works through, in grid points along `axis` (0..2, slowest first) of `dims`.
/// The area of a bin's footprints, edge + width - 1 points along each axis, fits the fast memory of either backend.
constexpr int bin_edge(int axis, int dims, int width) {
  if (axis < 3 - dims) return 1;
  return dims == 1 ? 256 : dims == 2 ? 16 : axis == 0 && width > 6 ? 4 : 8;
}

/// A stretch of the order: samples whose footprints start in the same bin.
struct BinPiece {
  std::int32_t begin, count;
  std::int32_t origin[3];  ///< origin of the bin in the grid
};

/// The part of a column of the grid, in FFT order, that footprints cover: numbers of points from its start and from its
/// end.
struct Reach {
  std::int32_t before, after;
};
constexpr int kReachEdge = 8;  ///< neighbouring columns along each axis that share one Reach

/// All samples, each once, bin after bin; bins without samples have no piece.
struct SampleBins {
  std::vector<std::int32_t> order;
  std::vector<BinPiece> pieces;
};
/// `starts`: [sample, dims] as in NufftPlan::Impl, all within the grid.
SampleBins bin_samples(ThreadPool& threads, const Tiling& tiling, HostView<const std::int32_t> starts);

struct NufftPlan::Impl {
  Shape image, grid;
  NufftOptions options;
  NufftTuning tuning;
  std::int64_t samples = 0;
  Backend backend = Backend::cpu;
  void* stream = nullptr;  ///< the stream on which the arrays are freed
  std::uint64_t bytes = 0;

  Tiling tiling{};
  std::int32_t slots = 0;
  std::int32_t slot_points = 0;   ///< grid points of a slot
  Array<std::int32_t> starts;     ///< CPU only. [sample, dims], slowest axis first: first grid point of the footprint
  Array<Footprint> footprints;    ///< CUDA only. [sample]
  Sums sums = Sums::full;         ///< CUDA only
  WindowPolynomial windows[3]{};  ///< CUDA only. One per axis of the grid, slowest first
  Array<float> weights;           ///< CPU only. [sample, dims, width]; 0 for a sample nowhere
  Array<float> deapodization;
  Array<std::int32_t> list;  ///< sample numbers, tile after tile; within a tile in the samples' order, on CUDA in that
                             ///< of homes
  Array<Piece> pieces;       ///< pieces that cover all tiles
  Array<SplitTile> split_tiles;
  Array<std::int32_t> order;  ///< order of the samples for interpolation
  Array<BinPiece> bins;
  Array<Reach> reach;  ///< CUDA only. For columns along y, by x; then, in 3D, for columns along z, by y and x

  Extents grid_extents() const { return {tiling.grid[0], tiling.grid[1], tiling.grid[2]}; }
};

/// Grids the coils [first, first + count) of `samples` ([sample, coils]) onto grid ([count, grid...]).
struct GridArguments {
  const cfloat* samples;
  const float* weights;  ///< or nullptr
  std::int64_t coils, first, count;
  cfloat* partial;  ///< [slot, count, slot_points]
  cfloat* grid;
};

/// The source of a grid: anything, or grid() from the plan's own samples, so that all other points are 0.
enum class GridOf { anything, plan };

/// Adds samples to a grid: grid += sign * (their convolution).
struct AccumulateArguments {
  std::int64_t first, samples_count;  ///< the plan's samples to add
  const cfloat* samples;              ///< [samples_count, coils]
  const float* weights;               ///< [samples_count] or nullptr
  float sign;
  std::int64_t coils;
  cfloat* grid;  ///< [coils, grid...]
};

/// Interpolates the coils [first, first + count) of `samples` ([sample, coils]) from grid ([count, grid...]).
struct InterpolateArguments {
  const cfloat* grid;
  std::int64_t coils, first, count;
  cfloat* samples;
};

/// The lists on the host: `list`, `pieces`, `split_tiles`, `slots`, and `order` and `bins` where they are used.
/// `starts` and `weights`: as in NufftPlan::Impl, on the host.
struct HostLists {
  std::vector<std::int32_t> list;
  std::vector<Piece> pieces;
  std::vector<SplitTile> split_tiles;
  std::int32_t slots = 0;
  SampleBins bins;
};
HostLists list_samples(ThreadPool& threads, const NufftPlan::Impl& plan, const std::int32_t* starts,
                       const float* weights);
/// Uploads the lists to the plan's memory.
void keep_lists(Context& context, const HostLists& lists, NufftPlan::Impl& plan);
/// Fills in `starts` and `weights` from coordinates.
void place_samples(ThreadPool& threads, const NufftPlan::Impl& plan, HostView<const double> coordinates,
                   std::int32_t* starts, float* weights);

// clang-format off
ECHOTRAIN_BACKENDS(
/// Fills in all that depends on the trajectory; the rest is set already.
void fill_plan(Context& context, HostView<const double> coordinates, NufftPlan::Impl& plan);
void grid(Context& context, const NufftPlan::Impl& plan, const GridArguments& arguments);
/// On CUDA, it adds atomically, so that the order of sums, and with it their last bits, differ from run to run.
void accumulate(Context& context, const NufftPlan::Impl& plan, const AccumulateArguments& arguments);
/// Does the inverse transform and deapodize(); the grid is working space afterwards.
void to_images(Context& context, const NufftPlan::Impl& plan, cfloat* grid, std::int64_t coils, cfloat* image,
               GridOf grid_of);
void deapodize(Context& context, const NufftPlan::Impl& plan, const cfloat* grid, std::int64_t coils, cfloat* image);
void apodize(Context& context, const NufftPlan::Impl& plan, const cfloat* image, std::int64_t coils, cfloat* grid);
void interpolate(Context& context, const NufftPlan::Impl& plan, const InterpolateArguments& arguments);
)
// clang-format on

namespace cpu {
/// Does apodize() and the forward transform.
inline void to_grid(Context& context, const NufftPlan::Impl& plan, const cfloat* image, std::int64_t coils,
                    cfloat* grid) {
  apodize(context, plan, image, coils, grid);
  fft(context, grid, coils, plan.grid_extents(), plan.tiling.dims, Direction::forward);
}
inline void release_after(Context& /*context*/, const NufftPlan::Impl& /*plan*/) {}
}  // namespace cpu
namespace cuda {
/// Does apodize() and the forward transform; points of the grid that interpolate() does not read may keep their old
/// values.
void to_grid(Context& context, const NufftPlan::Impl& plan, const cfloat* image, std::int64_t coils, cfloat* grid);
/// Fills in `reach` from `bins` or, for the adjoint alone, `pieces`.
void find_reach(Context& context, NufftPlan::Impl& plan);
/// Lets the plan's memory be freed only after the work enqueued on `context`, when that is not the plan's own stream.
void release_after(Context& context, const NufftPlan::Impl& plan);
}  // namespace cuda

}  // namespace echotrain::numerics
