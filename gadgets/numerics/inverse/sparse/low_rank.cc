#include "gadgets/numerics/inverse/sparse/low_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/inverse/sparse/low_rank_ops.h"

namespace echotrain::numerics {
namespace {

// Numbers that one thread works on at a time, in double precision: 8 MiB, and a few times as much beside it.
constexpr std::int64_t kMostOfBlock = 1 << 19;

LowRankGrid grid_of(const LowRankBlocks& blocks, const Shape& series) {
  if (series.rank() != 4)
    throw std::invalid_argument("low rank: expected a series [frame, z, y, x], got " + series.text());
  if (blocks.extent < 1) throw std::invalid_argument(fmt::format("low rank: blocks of {} voxels", blocks.extent));
  LowRankGrid grid{};
  grid.frames = series[0];
  std::int64_t voxels = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    grid.n[a] = series[a + 1];
    grid.block[a] = std::max<std::int64_t>(1, std::min(blocks.extent, grid.n[a]));
    grid.blocks[a] = (grid.n[a] + grid.block[a] - 1) / grid.block[a];
    grid.shift[a] = blocks.shift[a];
    voxels *= grid.block[a];
    if (grid.shift[a] < 0 || grid.shift[a] >= std::max<std::int64_t>(1, grid.n[a]))
      throw std::invalid_argument(fmt::format("low rank: a shift of {} along an axis of {}", grid.shift[a], grid.n[a]));
  }
  if (std::min(voxels, grid.frames) > kMostLowRank)
    throw std::invalid_argument(
        fmt::format("low rank: blocks of {} voxels by {} frames; one of both must be {} or less", voxels, grid.frames,
                    kMostLowRank));
  if (voxels * grid.frames > kMostOfBlock)
    throw std::invalid_argument(
        fmt::format("low rank: blocks of {} voxels by {} frames; make them smaller, at most {} "
                    "numbers",
                    voxels, grid.frames, kMostOfBlock));
  return grid;
}

}  // namespace

std::int64_t count(const LowRankBlocks& blocks, const Shape& series) { return grid_of(blocks, series).count(); }

void shrink_singular_values(Context& context, const LowRankBlocks& blocks, double threshold,
                            DeviceView<cfloat> series) {
  const LowRankGrid grid = grid_of(blocks, series.shape());
  if (!(threshold >= 0)) throw std::invalid_argument(fmt::format("low rank: the threshold cannot be {}", threshold));
  if (series.size() > 0) ECHOTRAIN_DISPATCH(context, low_rank(context, grid, threshold, series.data(), nullptr));
}

double sum_of_singular_values(Context& context, const LowRankBlocks& blocks, DeviceView<const cfloat> series) {
  const LowRankGrid grid = grid_of(blocks, series.shape());
  if (series.size() == 0) return 0;
  Array<double> sums = context.allocate<double>({grid.count()});
  // With sums, the series is only read.
  ECHOTRAIN_DISPATCH(context, low_rank(context, grid, 0, const_cast<cfloat*>(series.data()), sums.data()));
  const HostArray<double> host = context.download<double>(sums.cview());
  double sum = 0;
  for (std::int64_t i = 0; i < host.size(); ++i) sum += host.data()[i];
  return sum;
}

}  // namespace echotrain::numerics
