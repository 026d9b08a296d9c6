// Interpolation on the CPU: the grid around each bin of samples is copied to a tile that stays in cache, eight coils
// side by side; each sample then sums over its footprint there.
#include <algorithm>
#include <cstring>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/transforms/nufft/nufft_plan.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr int kLookAhead = 6;
constexpr int kRow = 16;  // floats: eight coils of a point, or eight points of a coil

// Eight floats, for which GCC uses the widest registers of each clone.
using Floats = float __attribute__((vector_size(32)));
ECHOTRAIN_INLINE void load(const float* from, Floats& to) { std::memcpy(&to, from, sizeof to); }

struct alignas(64) CacheLine {
  float values[kRow];
};

/// One piece of work: the samples of a bin, for some coils.
struct Work {
  const std::int32_t* order;
  std::int32_t count;
  const std::int32_t* starts;
  const float* kernel;      // [sample, dims, width]
  float* to;                // first coil's real part of sample 0
  std::int64_t to_stride;   // floats from sample to sample
  const float* tile;        // [z, y, x, coil] complex
  std::int32_t origin[3];   // origin of the tile in the grid
  std::int32_t row, plane;  // points from row to row, from plane to plane of the tile
  std::int32_t width;
};

/// Coils 4 and 8 vectorise over coils. One coil vectorises over x: a row of the footprint is read as kRow floats, of
/// which those beyond the footprint are left out of the sum.
template <int Coils, int Dims>
ECHOTRAIN_INLINE void interpolate_bin(const Work& work) {
  static constexpr float kOne = 1;
  constexpr int kFloats = Coils == 1 ? kRow : 2 * Coils, kVectors = kFloats / 8;
  const std::int32_t record = Dims * work.width, width = work.width;
  for (std::int32_t i = 0; i < work.count; ++i) {
    const std::int64_t s = work.order[i];
    if (i + kLookAhead < work.count) {
      const std::int64_t ahead = work.order[i + kLookAhead];
      __builtin_prefetch(work.kernel + ahead * record);
      __builtin_prefetch(work.starts + ahead * Dims);
      __builtin_prefetch(work.to + ahead * work.to_stride, 1);
    }
    const std::int32_t* start = work.starts + s * Dims;
    const float* wz = Dims > 2 ? work.kernel + s * record : &kOne;
    const float* wy = Dims > 1 ? work.kernel + s * record + (Dims - 2) * width : &kOne;
    const float* wx = work.kernel + s * record + (Dims - 1) * width;
    std::int32_t at = start[Dims - 1] - work.origin[2];
    if (Dims > 1) at += (start[Dims > 1 ? Dims - 2 : 0] - work.origin[1]) * work.row;
    if (Dims > 2) at += (start[0] - work.origin[0]) * work.plane;

    Floats sum[kVectors] = {};
    for (std::int32_t k = 0; k < (Dims > 2 ? width : 1); ++k)
      for (std::int32_t j = 0; j < (Dims > 1 ? width : 1); ++j) {
        const float* from = work.tile + 2 * Coils * (at + k * work.plane + j * work.row);
        const float w = wz[k] * wy[j];
        Floats value;
        if constexpr (Coils == 1) {
          for (int v = 0; v < kVectors; ++v) {
            load(from + 8 * v, value);
            sum[v] += w * value;
          }
        } else {
          Floats row[kVectors] = {};
          for (std::int32_t p = 0; p < width; ++p, from += kFloats)
            for (int v = 0; v < kVectors; ++v) {
              load(from + 8 * v, value);
              row[v] += wx[p] * value;
            }
          for (int v = 0; v < kVectors; ++v) sum[v] += w * row[v];
        }
      }

    float* to = work.to + s * work.to_stride;
    if constexpr (Coils == 1) {
      float row[kRow], re = 0, im = 0;
      std::memcpy(row, sum, sizeof row);
      for (std::int32_t p = 0; p < width; ++p) {
        re += wx[p] * row[2 * p];
        im += wx[p] * row[2 * p + 1];
      }
      to[0] = re;
      to[1] = im;
    } else {
      std::memcpy(to, sum, sizeof sum);
    }
  }
}

ECHOTRAIN_CLONES void interpolate8x1(const Work& work) { interpolate_bin<8, 1>(work); }
ECHOTRAIN_CLONES void interpolate8x2(const Work& work) { interpolate_bin<8, 2>(work); }
ECHOTRAIN_CLONES void interpolate8x3(const Work& work) { interpolate_bin<8, 3>(work); }
ECHOTRAIN_CLONES void interpolate4x1(const Work& work) { interpolate_bin<4, 1>(work); }
ECHOTRAIN_CLONES void interpolate4x2(const Work& work) { interpolate_bin<4, 2>(work); }
ECHOTRAIN_CLONES void interpolate4x3(const Work& work) { interpolate_bin<4, 3>(work); }
ECHOTRAIN_CLONES void interpolate1x1(const Work& work) { interpolate_bin<1, 1>(work); }
ECHOTRAIN_CLONES void interpolate1x2(const Work& work) { interpolate_bin<1, 2>(work); }
ECHOTRAIN_CLONES void interpolate1x3(const Work& work) { interpolate_bin<1, 3>(work); }

/// to[i, c] = from[c, i] for i < n: eight, four or one coils side by side.
template <int Coils>
void interleave(const cfloat* from, std::int64_t coil_stride, std::int32_t n, float* to) {
  for (std::int32_t i = 0; i < n; ++i)
    for (int c = 0; c < Coils; ++c) std::memcpy(to + 2 * (i * Coils + c), from + c * coil_stride + i, sizeof(cfloat));
}

/// The group of coils to take when so many are left, and its functions.
struct Group {
  std::int64_t coils;
  void (*interpolate[3])(const Work& work);  // indexed by dimensions - 1
  void (*interleave)(const cfloat* from, std::int64_t coil_stride, std::int32_t n, float* to);
};
constexpr Group kEight{8, {interpolate8x1, interpolate8x2, interpolate8x3}, interleave<8>};
constexpr Group kFour{4, {interpolate4x1, interpolate4x2, interpolate4x3}, interleave<4>};
constexpr Group kOne{1, {interpolate1x1, interpolate1x2, interpolate1x3}, interleave<1>};
const Group& group_of(std::int64_t coils_left) { return coils_left >= 8 ? kEight : coils_left >= 4 ? kFour : kOne; }

/// Copies the grid's points origin .. origin + extent, around its ends, to the tile.
void copy_tile(const Tiling& t, const std::int32_t* origin, const std::int32_t* extent, const cfloat* grid,
               std::int64_t coil_stride, const Group& group, float* tile) {
  for (std::int32_t z = 0; z < extent[0]; ++z)
    for (std::int32_t y = 0; y < extent[1]; ++y) {
      const std::int64_t gz = (origin[0] + z) % t.grid[0], gy = (origin[1] + y) % t.grid[1];
      const cfloat* row = grid + (gz * t.grid[1] + gy) * t.grid[2];
      for (std::int32_t x = 0, gx = origin[2], n; x < extent[2]; x += n, gx = 0) {
        n = std::min(extent[2] - x, t.grid[2] - gx);
        group.interleave(row + gx, coil_stride, n, tile);
        tile += 2 * group.coils * n;
      }
    }
}

ECHOTRAIN_CLONES void multiply(const cfloat* from, const float* factors, float factor, std::int64_t n, cfloat* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[i] * (factor * factors[i]);
}

}  // namespace

void interpolate(Context& context, const NufftPlan::Impl& plan, const InterpolateArguments& arguments) {
  const Tiling& t = plan.tiling;
  const std::int64_t grid_size = volume(plan.grid_extents());
  std::int32_t extent[3];
  for (int a = 0; a < 3; ++a) extent[a] = bin_edge(a, t.dims, t.width) + (a >= 3 - t.dims ? t.width - 1 : 0);
  const std::int32_t plane = extent[1] * extent[2];
  // One spare line, because the last row of a footprint is read beyond its end.
  const auto lines = static_cast<std::size_t>(extent[0]) * plane * std::min<std::int64_t>(8, arguments.count) / 8 + 2;
  context.threads().parallel_for(plan.bins.size(), 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<CacheLine> tile(lines);
    for (std::int64_t i = begin; i < end; ++i) {
      const BinPiece& piece = plan.bins.data()[i];
      Work work{.order = plan.order.data() + piece.begin,
                .count = piece.count,
                .starts = plan.starts.data(),
                .kernel = plan.weights.data(),
                .to = nullptr,
                .to_stride = 2 * arguments.coils,
                .tile = tile.front().values,
                .origin = {piece.origin[0], piece.origin[1], piece.origin[2]},
                .row = extent[2],
                .plane = plane,
                .width = t.width};
      for (std::int64_t c = 0; c < arguments.count;) {
        const Group& group = group_of(arguments.count - c);
        copy_tile(t, piece.origin, extent, arguments.grid + c * grid_size, grid_size, group, tile.front().values);
        work.to = reinterpret_cast<float*>(arguments.samples + arguments.first + c);
        group.interpolate[t.dims - 1](work);
        c += group.coils;
      }
    }
  });
}

void apodize(Context& context, const NufftPlan::Impl& plan, const cfloat* image, std::int64_t coils, cfloat* grid) {
  const Tiling& t = plan.tiling;
  const std::int64_t nz = t.image[0], ny = t.image[1], nx = t.image[2], gz = t.grid[0], gy = t.grid[1], gx = t.grid[2];
  // Unused leading axes have no factors.
  const float* fx = plan.deapodization.data() + plan.deapodization.size() - nx;
  const float* fy = t.dims > 1 ? fx - ny : nullptr;
  const float* fz = t.dims > 2 ? fy - nz : nullptr;
  // The image's index of a grid index; outside [0, n) where the grid is empty.
  const auto image_index = [](std::int64_t i, std::int64_t n, std::int64_t g) {
    return (i < n - n / 2 ? i : i - g) + n / 2;
  };
  context.threads().parallel_for(
      coils * gz * gy, std::max<std::int64_t>(1, 16384 / gx), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t c = row / (gz * gy), z = image_index(row / gy % gz, nz, gz),
                             y = image_index(row % gy, ny, gy);
          cfloat* to = grid + row * gx;
          if (z < 0 || y < 0) {
            std::fill_n(to, gx, cfloat{});
            continue;
          }
          const float factor = (fz != nullptr ? fz[z] : 1.0f) * (fy != nullptr ? fy[y] : 1.0f);
          const cfloat* from = image + ((c * nz + z) * ny + y) * nx;
          const std::int64_t middle = nx / 2;
          multiply(from + middle, fx + middle, factor, nx - middle, to);
          std::fill(to + nx - middle, to + gx - middle, cfloat{});
          multiply(from, fx, factor, middle, to + gx - middle);
        }
      });
}

}  // namespace echotrain::numerics::cpu
