#include <algorithm>
#include <cstring>

#include "gadgets/numerics/clones.h"
#include "gadgets/numerics/nufft_plan.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr int kRow = 16;  // floats: eight coils of a point, or eight points of a coil
constexpr int kLookAhead = 6;

/// One piece of work: a stretch of a tile's list, for some coils.
struct Work {
  const std::int32_t* list;
  std::int32_t count;
  const std::int32_t* starts;
  const float* kernel;       // [sample, dims, width]
  const float* density;      // or nullptr
  const float* data;         // first coil's real part of sample 0
  std::int64_t data_stride;  // floats from sample to sample
  std::int32_t origin[3], extent[3], grid[3];
  std::int32_t dims, width;
};

/// The part of a footprint that lies in a tile along one axis: points [at, at + n) of the tile, kernel weights from w.
struct Overlap {
  std::int32_t at, n;
  const float* w;
};

ECHOTRAIN_INLINE Overlap overlap(std::int32_t start, const float* kernel, std::int32_t origin, std::int32_t extent,
                                 std::int32_t grid, std::int32_t width) {
  std::int32_t a = start - origin;
  if (a >= extent) a -= grid;  // it reaches this tile around the grid's end
  const std::int32_t low = std::max(0, -a), high = std::min(width, extent - a);
  return {a + low, high - low, kernel + low};
}

/// Adds the samples of a piece to sum [z, y, x, Coils] (complex). Coils 4 and 8 vectorise over coils. One coil
/// vectorises over x: a row is padded with zeros to kRow floats, which may reach into the next rows but adds nothing.
template <int Coils, int Dims>
ECHOTRAIN_INLINE void gather(const Work& work, float* sum) {
  static constexpr float kOne = 1;
  constexpr int kStep = 2 * Coils;
  const std::int32_t row_stride = work.extent[2] * kStep, plane_stride = row_stride * work.extent[1];
  const std::int32_t record = Dims * work.width;
  for (std::int32_t i = 0; i < work.count; ++i) {
    const std::int64_t s = work.list[i];
    if (i + kLookAhead < work.count) {
      const std::int64_t ahead = work.list[i + kLookAhead];
      __builtin_prefetch(work.kernel + ahead * record);
      __builtin_prefetch(work.data + ahead * work.data_stride);
    }
    const std::int32_t* start = work.starts + s * Dims;
    const float* kernel = work.kernel + s * record;
    const auto along = [&](int axis) {
      const int a = axis - (3 - Dims);
      return overlap(start[a], kernel + a * work.width, work.origin[axis], work.extent[axis], work.grid[axis],
                     work.width);
    };
    const Overlap x = along(2);
    const Overlap y = Dims > 1 ? along(1) : Overlap{0, 1, &kOne};
    const Overlap z = Dims > 2 ? along(0) : Overlap{0, 1, &kOne};
    const float density = work.density == nullptr ? 1.0f : work.density[s];
    const float* data = work.data + s * work.data_stride;

    float value[kStep];
    for (int q = 0; q < kStep; ++q) value[q] = data[q] * density;
    if constexpr (Coils == 1) {
      float row[kRow] = {};
      for (std::int32_t p = 0; p < x.n; ++p) {
        row[2 * p] = x.w[p] * value[0];
        row[2 * p + 1] = x.w[p] * value[1];
      }
      for (std::int32_t k = 0; k < z.n; ++k)
        for (std::int32_t j = 0; j < y.n; ++j) {
          const float w = z.w[k] * y.w[j];
          float* to = sum + (z.at + k) * plane_stride + (y.at + j) * row_stride + x.at * kStep;
          for (int q = 0; q < kRow; ++q) to[q] += w * row[q];
        }
    } else {
      for (std::int32_t k = 0; k < z.n; ++k)
        for (std::int32_t j = 0; j < y.n; ++j) {
          const float w = z.w[k] * y.w[j];
          float* to = sum + (z.at + k) * plane_stride + (y.at + j) * row_stride + x.at * kStep;
          for (std::int32_t p = 0; p < x.n; ++p) {
            const float wx = w * x.w[p];
            for (int q = 0; q < kStep; ++q) to[p * kStep + q] += wx * value[q];
          }
        }
    }
  }
}

template <int Coils>
ECHOTRAIN_INLINE void gather_dims(const Work& work, float* sum) {
  if (work.dims == 3)
    gather<Coils, 3>(work, sum);
  else if (work.dims == 2)
    gather<Coils, 2>(work, sum);
  else
    gather<Coils, 1>(work, sum);
}

ECHOTRAIN_CLONES void gather8(const Work& work, float* sum) { gather_dims<8>(work, sum); }
ECHOTRAIN_CLONES void gather4(const Work& work, float* sum) { gather_dims<4>(work, sum); }
ECHOTRAIN_CLONES void gather1(const Work& work, float* sum) { gather_dims<1>(work, sum); }

std::int64_t group_of(std::int64_t coils_left) { return coils_left >= 8 ? 8 : coils_left >= 4 ? 4 : 1; }

/// Where a tile lies.
struct Place {
  std::int32_t origin[3], extent[3];
  Place(const Tiling& t, std::int32_t tile) {
    const std::int32_t at[3] = {tile / t.tiles[2] / t.tiles[1], tile / t.tiles[2] % t.tiles[1], tile % t.tiles[2]};
    for (int a = 0; a < 3; ++a) {
      origin[a] = at[a] * t.tile[a];
      extent[a] = std::min(t.tile[a], t.grid[a] - origin[a]);
    }
  }
  std::int32_t points() const { return extent[0] * extent[1] * extent[2]; }
};

/// Calls row(first point in the tile, offset in the grid, points) for each row of a tile.
template <class Row>
void for_rows(const Tiling& t, const Place& place, const Row& row) {
  std::int32_t point = 0;
  for (std::int32_t z = 0; z < place.extent[0]; ++z)
    for (std::int32_t y = 0; y < place.extent[1]; ++y, point += place.extent[2])
      row(point,
          ((static_cast<std::int64_t>(place.origin[0]) + z) * t.grid[1] + place.origin[1] + y) * t.grid[2] +
              place.origin[2],
          place.extent[2]);
}

/// A tile's sum of `group` coils [point, group] to the grid's coils, or to the partial sums [coil, kTilePoints].
void store(const Tiling& t, const Place& place, const float* sum, std::int64_t group, cfloat* to,
           std::int64_t coil_stride, bool partial) {
  for (std::int64_t c = 0; c < group; ++c)
    for_rows(t, place, [&](std::int32_t point, std::int64_t offset, std::int32_t n) {
      cfloat* row = to + c * coil_stride + (partial ? point : offset);
      for (std::int32_t x = 0; x < n; ++x) {
        const float* value = sum + 2 * ((point + x) * group + c);
        row[x] = {value[0], value[1]};
      }
    });
}

void gather_piece(const NufftPlan::Impl& plan, const GridArguments& arguments, const Piece& piece) {
  const Tiling& t = plan.tiling;
  const std::int64_t grid_size = volume(plan.grid_extents());
  const Place place(t, piece.tile);
  alignas(64) float sum[kTilePoints * 16 + kRow];
  Work work{.list = plan.list.data() + piece.begin,
            .count = piece.count,
            .starts = plan.starts.data(),
            .kernel = plan.weights.data(),
            .density = arguments.weights,
            .data = nullptr,
            .data_stride = 2 * arguments.coils,
            .origin = {},
            .extent = {},
            .grid = {},
            .dims = t.dims,
            .width = t.width};
  std::copy_n(place.origin, 3, work.origin);
  std::copy_n(place.extent, 3, work.extent);
  std::copy_n(t.grid, 3, work.grid);
  for (std::int64_t c = 0; c < arguments.count;) {
    const std::int64_t group = group_of(arguments.count - c);
    std::fill_n(sum, 2 * group * place.points() + kRow, 0.0f);
    work.data = reinterpret_cast<const float*>(arguments.samples + arguments.first + c);
    if (group == 8)
      gather8(work, sum);
    else if (group == 4)
      gather4(work, sum);
    else
      gather1(work, sum);
    if (piece.slot < 0)
      store(t, place, sum, group, arguments.grid + c * grid_size, grid_size, false);
    else
      store(t, place, sum, group, arguments.partial + (piece.slot * arguments.count + c) * kTilePoints, kTilePoints,
            true);
    c += group;
  }
}

}  // namespace

void grid(Context& context, const NufftPlan::Impl& plan, const GridArguments& arguments) {
  const Tiling& t = plan.tiling;
  const std::int64_t grid_size = volume(plan.grid_extents());
  context.threads().parallel_for(plan.pieces.size(), 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) gather_piece(plan, arguments, plan.pieces.data()[i]);
  });
  context.threads().parallel_for(plan.split_tiles.size(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const SplitTile split = plan.split_tiles.data()[i];
      const Place place(t, split.tile);
      for (std::int64_t c = 0; c < arguments.count; ++c)
        for_rows(t, place, [&](std::int32_t point, std::int64_t offset, std::int32_t n) {
          for (std::int32_t x = 0; x < n; ++x) {
            cfloat total{};
            for (std::int64_t slot = split.first; slot < split.first + split.count; ++slot)
              total += arguments.partial[(slot * arguments.count + c) * kTilePoints + point + x];
            arguments.grid[c * grid_size + offset + x] = total;
          }
        });
    }
  });
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
