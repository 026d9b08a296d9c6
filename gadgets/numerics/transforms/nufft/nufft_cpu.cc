#include <algorithm>
#include <atomic>
#include <memory>

#include "gadgets/numerics/core/thread_scratch.h"
#include "gadgets/numerics/transforms/fft/fft_lines_cpu.h"
#include "gadgets/numerics/transforms/nufft/nufft_gather_cpu.h"
#include "gadgets/numerics/transforms/nufft/nufft_plan.h"

namespace echotrain::numerics::cpu {
namespace {

/// The number of coils gridded together. Five to seven are gridded as eight, which takes less time than four and single
/// ones.
std::int32_t coils_together(std::int64_t coils_left) { return coils_left >= 5 ? 8 : coils_left >= 3 ? 4 : 1; }

struct TileScratch;     // a tile and its halo: some hundred kilobytes
struct StretchScratch;  // also a tile and its halo

constexpr std::int32_t kStretch = 256;  // samples per partial sum: the error grows as the root of their number
constexpr std::int32_t kRowPart = 64;   // points of partial sums added at a time

/// The points of the grid that a tile covers.
struct TileBox {
  std::int32_t origin[3], extent[3];
  TileBox(const Tiling& t, std::int32_t tile) {
    const std::int32_t at[3] = {tile / t.tiles[2] / t.tiles[1], tile / t.tiles[2] % t.tiles[1], tile % t.tiles[2]};
    for (int a = 0; a < 3; ++a) {
      origin[a] = at[a] * t.tile[a];
      extent[a] = std::min(t.tile[a], t.grid[a] - origin[a]);
    }
  }
};

/// Calls row(z, y, first point in the tile, offset in the grid) for each row of a tile.
template <class Row>
void for_rows(const Tiling& t, const TileBox& box, const Row& row) {
  std::int32_t point = 0;
  for (std::int32_t z = 0; z < box.extent[0]; ++z)
    for (std::int32_t y = 0; y < box.extent[1]; ++y, point += box.extent[2])
      row(z, y, point,
          ((static_cast<std::int64_t>(box.origin[0]) + z) * t.grid[1] + box.origin[1] + y) * t.grid[2] + box.origin[2]);
}

/// The part of the work that does not depend on the samples or the coils.
GatherWork gather_work(const NufftPlan::Impl& plan, const TileBox& box) {
  const Tiling& t = plan.tiling;
  GatherWork work{.list = nullptr,
                  .count = 0,
                  .starts = plan.starts.data(),
                  .kernel = plan.weights.data(),
                  .density = nullptr,
                  .data = nullptr,
                  .data_stride = 0,
                  .group = 0,
                  .coils = 0,
                  .dims = t.dims,
                  .width = t.width,
                  .origin = {},
                  .extent = {},
                  .grid = {}};
  std::copy_n(box.origin, 3, work.origin);
  std::copy_n(box.extent, 3, work.extent);
  std::copy_n(t.grid, 3, work.grid);
  return work;
}

/// The samples' sum over the tile, in this thread's buffer.
const float* gather_to_buffer(const GatherWork& work, const GatherLayout& layout, bool in_stretches) {
  const std::size_t floats = 2 * static_cast<std::size_t>(layout.points) * static_cast<std::size_t>(work.group);
  float* sum = thread_scratch<TileScratch>(floats);
  std::fill_n(sum, floats, 0.0f);
  if (!in_stretches || work.count <= kStretch) {
    gather(work, layout, sum);
    return sum;
  }
  float* part = thread_scratch<StretchScratch>(floats);
  GatherWork stretch = work;
  for (std::int32_t first = 0; first < work.count; first += kStretch) {
    stretch.list = work.list + first;
    stretch.count = std::min(kStretch, work.count - first);
    std::fill_n(part, floats, 0.0f);
    gather(stretch, layout, part);
    for (std::size_t i = 0; i < floats; ++i) sum[i] += part[i];
  }
  return sum;
}

void gather_piece(const NufftPlan::Impl& plan, const GridArguments& arguments, const Piece& piece) {
  const Tiling& t = plan.tiling;
  const std::int64_t grid_size = volume(plan.grid_extents());
  const TileBox box(t, piece.tile);
  GatherWork work = gather_work(plan, box);
  work.list = plan.list.data() + piece.begin;
  work.count = piece.count;
  work.density = arguments.weights;
  work.data_stride = 2 * arguments.coils;
  for (std::int64_t c = 0; c < arguments.count; c += work.coils) {
    work.group = coils_together(arguments.count - c);
    work.coils = static_cast<std::int32_t>(std::min<std::int64_t>(work.group, arguments.count - c));
    work.data = reinterpret_cast<const float*>(arguments.samples + arguments.first + c);
    const bool split = piece.slot >= 0;
    const std::int64_t coil_stride = split ? plan.slot_points : grid_size;
    cfloat* to = split ? arguments.partial + (piece.slot * arguments.count + c) * plan.slot_points
                       : arguments.grid + c * grid_size;
    if (piece.count == 0) {
      for_rows(t, box, [&](std::int32_t, std::int32_t, std::int32_t, std::int64_t offset) {
        for (std::int32_t i = 0; i < work.coils; ++i)
          std::fill_n(to + i * coil_stride + offset, box.extent[2], cfloat{});
      });
      continue;
    }
    const GatherLayout layout(box.extent, t.width, work.group);
    const float* sum = gather_to_buffer(work, layout, sums_in_stretches(plan.options));
    for_rows(t, box, [&](std::int32_t z, std::int32_t y, std::int32_t point, std::int64_t offset) {
      const std::int32_t first = z * layout.plane + y * layout.row + layout.halo;
      const cfloat* from = reinterpret_cast<const cfloat*>(sum) + first * work.group;
      cfloat* row = to + (split ? point : offset);
      if (work.group == 1)
        std::copy_n(from, box.extent[2], row);
      else
        columns_to_lines(from, work.group, box.extent[2], work.coils, row, coil_stride);
    });
  }
}

/// Calls visit(i) for every i < n, each on whichever thread is free, because pieces differ much in their work.
template <class Visit>
void for_each_piece(ThreadPool& threads, std::int64_t n, const Visit& visit) {
  std::atomic<std::int64_t> next{0};
  threads.parallel_for(std::min<std::int64_t>(threads.size(), n), 1, [&](std::int64_t, std::int64_t) {
    for (std::int64_t i = next++; i < n; i = next++) {
      threads.check_stop();
      visit(i);
    }
  });
}

}  // namespace

void grid(Context& context, const NufftPlan::Impl& plan, const GridArguments& arguments) {
  const Tiling& t = plan.tiling;
  const std::int64_t grid_size = volume(plan.grid_extents());
  for_each_piece(context.threads(), plan.pieces.size(),
                 [&](std::int64_t i) { gather_piece(plan, arguments, plan.pieces.data()[i]); });
  for_each_piece(context.threads(), plan.split_tiles.size(), [&](std::int64_t i) {
    const SplitTile split = plan.split_tiles.data()[i];
    const TileBox box(t, split.tile);
    for (std::int64_t c = 0; c < arguments.count; ++c)
      for_rows(t, box, [&](std::int32_t, std::int32_t, std::int32_t point, std::int64_t offset) {
        cfloat* to = arguments.grid + c * grid_size + offset;
        for (std::int32_t first = 0; first < box.extent[2]; first += kRowPart) {
          const std::int32_t n = std::min(kRowPart, box.extent[2] - first);
          cdouble sum[kRowPart] = {};  // double, because there may be thousands of parts
          for (std::int32_t part = 0; part < split.count; ++part) {
            const cfloat* from =
                arguments.partial + ((split.first + part) * arguments.count + c) * plan.slot_points + point + first;
            for (std::int32_t x = 0; x < n; ++x) sum[x] += cdouble(from[x]);
          }
          for (std::int32_t x = 0; x < n; ++x) to[first + x] = cfloat(sum[x]);
        }
      });
  });
}

void accumulate(Context& context, const NufftPlan::Impl& plan, const AccumulateArguments& arguments) {
  const Tiling& t = plan.tiling;
  const std::int32_t* starts = plan.starts.data() + arguments.first * t.dims;
  const float* kernel = plan.weights.data() + arguments.first * t.dims * t.width;
  const TileLists lists = list_tiles(context.threads(), t, starts, kernel, arguments.samples_count);
  // Tiles that no footprint touches keep their values.
  std::vector<std::int32_t> touched;
  for (std::size_t tile = 0; tile + 1 < lists.offsets.size(); ++tile)
    if (lists.offsets[tile + 1] > lists.offsets[tile]) touched.push_back(static_cast<std::int32_t>(tile));
  const std::int64_t grid_size = volume(plan.grid_extents());
  for_each_piece(context.threads(), static_cast<std::int64_t>(touched.size()), [&](std::int64_t i) {
    const auto tile = static_cast<std::size_t>(touched[static_cast<std::size_t>(i)]);
    const TileBox box(t, touched[static_cast<std::size_t>(i)]);
    GatherWork work = gather_work(plan, box);
    work.list = lists.list.data() + lists.offsets[tile];
    work.count = static_cast<std::int32_t>(lists.offsets[tile + 1] - lists.offsets[tile]);
    work.starts = starts;
    work.kernel = kernel;
    work.density = arguments.weights;
    work.data_stride = 2 * arguments.coils;
    for (std::int64_t c = 0; c < arguments.coils; c += work.coils) {
      work.group = coils_together(arguments.coils - c);
      work.coils = static_cast<std::int32_t>(std::min<std::int64_t>(work.group, arguments.coils - c));
      work.data = reinterpret_cast<const float*>(arguments.samples + c);
      const GatherLayout layout(box.extent, t.width, work.group);
      const float* sum = gather_to_buffer(work, layout, sums_in_stretches(plan.options));
      for_rows(t, box, [&](std::int32_t z, std::int32_t y, std::int32_t /*point*/, std::int64_t offset) {
        const cfloat* from =
            reinterpret_cast<const cfloat*>(sum) + (z * layout.plane + y * layout.row + layout.halo) * work.group;
        for (std::int32_t coil = 0; coil < work.coils; ++coil) {
          cfloat* to = arguments.grid + (c + coil) * grid_size + offset;
          for (std::int32_t x = 0; x < box.extent[2]; ++x) to[x] += arguments.sign * from[x * work.group + coil];
        }
      });
    }
  });
}

void to_images(Context& context, const NufftPlan::Impl& plan, cfloat* grid, std::int64_t coils, cfloat* image,
               GridOf /*grid_of*/) {
  const Tiling& t = plan.tiling;
  if (t.dims == 1) {
    fft(context, grid, coils, plan.grid_extents(), 1, Direction::inverse);
    return deapodize(context, plan, grid, coils, image);
  }
  const float* fx = plan.deapodization.data() + plan.deapodization.size() - t.image[2];
  const float* fy = fx - t.image[1];
  const Factors factors = {t.dims > 2 ? fy - t.image[0] : nullptr, fy, fx};
  inverse_fft_cropped(context, grid, image, coils,
                      Centred{.n = {t.image[0], t.image[1], t.image[2]}, .padded = plan.grid_extents()}, t.dims,
                      factors);
}

void deapodize(Context& context, const NufftPlan::Impl& plan, const cfloat* grid, std::int64_t coils, cfloat* image) {
  const Tiling& t = plan.tiling;
  const std::int64_t nz = t.image[0], ny = t.image[1], nx = t.image[2];
  // Unused leading axes have no factors.
  const float* fx = plan.deapodization.data() + plan.deapodization.size() - nx;
  const float* fy = t.dims > 1 ? fx - ny : nullptr;
  const float* fz = t.dims > 2 ? fy - nz : nullptr;
  const auto wrapped = [](std::int64_t i, std::int64_t n, std::int64_t g) {
    return i < n / 2 ? i - n / 2 + g : i - n / 2;
  };
  context.threads().parallel_for(
      coils * nz * ny, std::max<std::int64_t>(1, 16384 / nx), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t c = row / (nz * ny), z = row / ny % nz, y = row % ny;
          const float f = (fz != nullptr ? fz[z] : 1.0f) * (fy != nullptr ? fy[y] : 1.0f);
          const cfloat* from =
              grid + ((c * t.grid[0] + wrapped(z, nz, t.grid[0])) * t.grid[1] + wrapped(y, ny, t.grid[1])) * t.grid[2];
          cfloat* to = image + row * nx;
          for (std::int64_t x = 0; x < nx; ++x) to[x] = from[wrapped(x, nx, t.grid[2])] * (f * fx[x]);
        }
      });
}

}  // namespace echotrain::numerics::cpu
