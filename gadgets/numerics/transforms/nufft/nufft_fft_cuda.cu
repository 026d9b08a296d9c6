// Transforms between grids and images. Only what the image keeps is transformed. For the lengths of with_length(), our
// own passes leave out lines and points, and divide by the kernel's transform on the way; for other lengths, cuFFT
// leaves out planes. In grids of the plan's own samples, points that no sample is near are left out too.
#include <algorithm>
#include <stdexcept>
#include <type_traits>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/transforms/fft/fft_lines_cuda.cuh"
#include "gadgets/numerics/transforms/nufft/nufft_plan.h"
#include "gadgets/numerics/transforms/nufft/nufft_tiles_cuda.cuh"

namespace echotrain::numerics::cuda {
namespace {

/// Transforms the planes of one grid that hold the image's, in FFT order: from the start and from the end.
void fft_kept_planes(Context& context, const Tiling& t, cfloat* grid, Direction direction) {
  const std::int64_t plane = static_cast<std::int64_t>(t.grid[1]) * t.grid[2], after = t.image[0] / 2,
                     before = t.image[0] - after;
  const Extents extents{1, t.grid[1], t.grid[2]};
  fft(context, grid, before, extents, 2, direction);
  if (after > 0) fft(context, grid + (t.grid[0] - after) * plane, after, extents, 2, direction);
}

void transform(Context& context, const NufftPlan::Impl& plan, cfloat* grid, std::int64_t coils, Direction direction) {
  const Tiling& t = plan.tiling;
  if (t.dims < 3) {
    fft(context, grid, coils, plan.grid_extents(), t.dims, direction);
    return;
  }
  const std::int64_t plane = static_cast<std::int64_t>(t.grid[1]) * t.grid[2];
  for (std::int64_t c = 0; c < coils; ++c) {
    cfloat* const item = grid + c * t.grid[0] * plane;
    if (direction == Direction::forward) fft_kept_planes(context, t, item, direction);
    fft_columns(context, item, t.grid[0], plane, direction);
    if (direction == Direction::inverse) fft_kept_planes(context, t, item, direction);
  }
}

/// The place on the grid's axis of `extent` of point i of an image's axis of `n`.
__device__ __forceinline__ int kept_at(int i, int n, int extent) { return i < n / 2 ? i - n / 2 + extent : i - n / 2; }

/// `factors` are those of the image's axes one after another. A row of threads per image row, so that indices are
/// computed once a row.
__global__ void deapodize_kernel(Tiling t, const float* factors, const float2* grid, std::int64_t rows, float2* image) {
  const int nx = t.image[2], ny = t.image[1], nz = t.image[0];
  const float* fx = factors + (t.dims > 2 ? nz : 0) + (t.dims > 1 ? ny : 0);
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < rows;
       row += static_cast<std::int64_t>(gridDim.x) * blockDim.y) {
    const std::int64_t plane = row / ny, c = plane / nz;
    const int y = static_cast<int>(row % ny), z = static_cast<int>(plane % nz);
    float factor = 1;
    if (t.dims > 2) factor *= factors[z];
    if (t.dims > 1) factor *= factors[(t.dims > 2 ? nz : 0) + y];
    const float2* from =
        grid + ((c * t.grid[0] + kept_at(z, nz, t.grid[0])) * t.grid[1] + kept_at(y, ny, t.grid[1])) * t.grid[2];
    float2* to = image + row * nx;
    for (int x = threadIdx.x; x < nx; x += blockDim.x) {
      const float2 v = from[kept_at(x, nx, t.grid[2])];
      const float f = factor * fx[x];
      to[x] = make_float2(v.x * f, v.y * f);
    }
  }
}

/// True if point `i` of an axis of `extent` points in FFT order is among the first `before` or the last `after`.
__device__ __forceinline__ bool is_within(int i, int extent, Reach reach) {
  return i < reach.before || i >= extent - reach.after;
}
/// Makes a transform with exp(-2 pi i ..) from one with exp(+2 pi i ..) between two conjugations.
template <Direction To>
__device__ __forceinline__ float2 turned(float2 v) {
  return To == Direction::forward ? make_float2(v.x, -v.y) : v;
}

/// Columns of `grids`, side by side, transformed in place. Inverse: points that samples reach are read, and those that
/// the image keeps are written. Forward: the other way round.
struct Columns {
  float2* grids;
  std::int64_t stride;      ///< from point to point of a column
  std::int64_t side;        ///< columns side by side
  std::int64_t group;       ///< values of a grid
  std::int32_t kept;        ///< points of a column that the image keeps
  std::int32_t planes, of;  ///< planes that the image keeps, and all planes; stride of a plane: columns' points
  std::int32_t row, rows;   ///< points of the grid's rows, and rows of a plane
  const Reach* reach;       ///< as in the plan; nullptr: all
  bool planar;              ///< true: columns of a volume along z, ordered so that neighbours are those of a plane
};

template <int N1, int N2, Direction To>
__global__ __launch_bounds__(Lines<N1, N2, false>::kThreads,
                             Lines<N1, N2, false>::kBlocks) void columns_kernel(Columns c) {
  using L = Lines<N1, N2, false>;
  static_assert(L::kLines == kReachEdge);
  extern __shared__ float2 shared[];
  const auto tiles = static_cast<unsigned>((c.side + L::kLines - 1) / L::kLines);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x % tiles) * L::kLines, item = blockIdx.x / tiles;
  const int plane = c.planes > 1 ? kept_at(static_cast<int>(item % c.planes), c.planes, c.of) : 0;
  float2* const base = c.grids + item / c.planes * c.group + plane * (c.stride * L::kPoints) + first;
  const auto there = static_cast<int>(min(static_cast<std::int64_t>(L::kLines), c.side - first));
  constexpr bool kForward = To == Direction::forward;
  const Reach kept{c.kept - c.kept / 2, c.kept / 2};
  Reach reached{L::kPoints, 0};
  if (c.reach != nullptr) {
    const auto of_row = c.row / kReachEdge, x = static_cast<int>(first % c.row) / kReachEdge,
               y = static_cast<int>(first / c.row);
    reached = c.reach[x];
    if (c.planar) {
      // The other pass leaves out what lies outside the reach along y.
      if (!is_within(y, c.rows, reached)) return;
      reached = c.reach[(1 + y / kReachEdge) * of_row + x];
    }
    if (kForward && reached.before == 0 && reached.after == 0) return;
  }
  const Reach read = kForward ? kept : reached, written = kForward ? reached : kept;
  transform_lines<N1, N2, false>(
      shared,
      [&](int line, int n) {
        float2 v = make_float2(0, 0);
        if (line < there && is_within(n, L::kPoints, read)) v = base[n * c.stride + line];
        return v;
      },
      [](int, int, float2 v) { return turned<To>(v); },
      [&](int line, int k, float2 v) {
        if (line < there && is_within(k, L::kPoints, written)) base[k * c.stride + line] = turned<To>(v);
      });
}

/// Transforms the rows of grids that the image keeps into the image, or, forward, from it.
template <int N1, int N2, Direction To>
__global__ __launch_bounds__(Lines<N1, N2, true>::kThreads, Lines<N1, N2, true>::kBlocks) void rows_kernel(
    Tiling t, const float* factors, std::conditional_t<To == Direction::inverse, const float2*, float2*> grids,
    std::int64_t rows, std::conditional_t<To == Direction::inverse, float2*, const float2*> image) {
  using L = Lines<N1, N2, true>;
  extern __shared__ float2 shared[];
  __shared__ float of_row[L::kLines];
  __shared__ std::int64_t of_grid[L::kLines];
  const int nx = t.image[2], ny = t.image[1], nz = t.image[0], before = nx - nx / 2;
  const float* const fx = factors + (t.dims > 2 ? nz : 0) + ny;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * L::kLines;
  if (threadIdx.x < L::kLines) {
    const std::int64_t row = min(first + threadIdx.x, rows - 1), plane = row / ny, c = plane / nz;
    const int y = static_cast<int>(row % ny), z = static_cast<int>(plane % nz);
    of_row[threadIdx.x] = t.dims > 2 ? factors[z] * factors[nz + y] : factors[y];
    of_grid[threadIdx.x] =
        ((c * t.grid[0] + (t.dims > 2 ? kept_at(z, nz, t.grid[0]) : 0)) * t.grid[1] + kept_at(y, ny, t.grid[1])) *
        L::kPoints;
  }
  __syncthreads();
  const auto image_point = [&](int k) {  // -1: none
    return k < before ? k + nx / 2 : k >= L::kPoints - nx / 2 ? k - (L::kPoints - nx / 2) : -1;
  };
  if constexpr (To == Direction::inverse) {
    transform_lines<N1, N2, true>(
        shared, [&](int line, int n) { return grids[of_grid[line] + n]; }, [](int, int, float2 v) { return v; },
        [&](int line, int k, float2 v) {
          const int i = image_point(k);
          if (i < 0 || first + line >= rows) return;
          const float f = of_row[line] * fx[i];
          image[(first + line) * nx + i] = make_float2(v.x * f, v.y * f);
        });
  } else {
    transform_lines<N1, N2, true>(
        shared,
        [&](int line, int n) {
          const int i = image_point(n);
          float2 v = make_float2(0, 0);
          if (i >= 0 && first + line < rows) v = image[(first + line) * nx + i];
          return v;
        },
        [&](int line, int n, float2 v) {
          const float f = of_row[line] * fx[max(image_point(n), 0)];
          return make_float2(v.x * f, -v.y * f);
        },
        [&](int line, int k, float2 v) {
          if (first + line < rows) grids[of_grid[line] + k] = turned<To>(v);
        });
  }
}

template <int N>
using Int = std::integral_constant<int, N>;
/// Calls run(N1, N2) for a line's length N1 N2; false for other lengths.
template <class Run>
bool with_length(int length, const Run& run) {
  switch (length) {
    case 80:
      return run(Int<8>{}, Int<10>{}), true;
    case 96:
      return run(Int<8>{}, Int<12>{}), true;
    case 112:
      return run(Int<8>{}, Int<14>{}), true;
    case 128:
      return run(Int<8>{}, Int<16>{}), true;
    case 144:
      return run(Int<12>{}, Int<12>{}), true;
    case 160:
      return run(Int<10>{}, Int<16>{}), true;
    case 168:
      return run(Int<12>{}, Int<14>{}), true;
    case 192:
      return run(Int<12>{}, Int<16>{}), true;
    case 224:
      return run(Int<14>{}, Int<16>{}), true;
    case 240:
      return run(Int<15>{}, Int<16>{}), true;
    case 256:
      return run(Int<16>{}, Int<16>{}), true;
    case 288:
      return run(Int<16>{}, Int<18>{}), true;
    case 320:
      return run(Int<16>{}, Int<20>{}), true;
    case 336:
      return run(Int<16>{}, Int<21>{}), true;
    case 384:
      return run(Int<16>{}, Int<24>{}), true;
    case 448:
      return run(Int<16>{}, Int<28>{}), true;
    case 480:
      return run(Int<20>{}, Int<24>{}), true;
    case 512:
      return run(Int<16>{}, Int<32>{}), true;
    case 576:
      return run(Int<24>{}, Int<24>{}), true;
    case 640:
      return run(Int<20>{}, Int<32>{}), true;
    case 672:
      return run(Int<24>{}, Int<28>{}), true;
    case 768:
      return run(Int<24>{}, Int<32>{}), true;
    case 896:
      return run(Int<28>{}, Int<32>{}), true;
    default:
      return false;
  }
}

template <class Kernel, class... Arguments>
void launch(Context& context, Kernel* kernel, std::int64_t blocks, int threads, int bytes, Arguments... arguments) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "allowing shared memory");
  if (blocks > INT32_MAX) throw std::invalid_argument("nufft: too many lines");
  kernel<<<static_cast<unsigned>(blocks), threads, bytes, stream_of(context)>>>(arguments...);
  check_launch("transform of lines");
}

template <Direction To>
void transform_columns(Context& context, int length, const Columns& columns, std::int64_t items) {
  with_length(length, [&](auto n1, auto n2) {
    using L = Lines<n1, n2, false>;
    launch(context, &columns_kernel<n1, n2, To>, (columns.side + L::kLines - 1) / L::kLines * items, L::kThreads,
           L::kBytes, columns);
  });
}

/// One of `grids` and `image` is const.
template <Direction To, class Grids, class Image>
void transform_rows(Context& context, const NufftPlan::Impl& plan, Grids* grids, std::int64_t coils, Image* image) {
  const std::int64_t rows = coils * plan.tiling.image[0] * plan.tiling.image[1];
  with_length(plan.tiling.grid[2], [&](auto n1, auto n2) {
    using L = Lines<n1, n2, true>;
    launch(context, &rows_kernel<n1, n2, To>, (rows + L::kLines - 1) / L::kLines, L::kThreads, L::kBytes, plan.tiling,
           plan.deapodization.data(), grids, rows, image);
  });
}

/// The columns of grids. `reach` is as in Columns.
struct GridColumns {
  Columns along_y, along_z;
  GridColumns(const Tiling& t, cfloat* grid, const Reach* reach) {
    const std::int64_t plane = static_cast<std::int64_t>(t.grid[1]) * t.grid[2], volume = t.grid[0] * plane;
    float2* const grids = device_view(grid);
    along_y = {grids,     t.grid[2], t.grid[2], volume, t.image[1], t.image[0],
               t.grid[0], t.grid[2], t.grid[1], reach,  false};
    along_z = {grids, plane, plane, volume, t.image[0], 1, 1, t.grid[2], t.grid[1], reach, true};
  }
};

bool has_lines(const Tiling& t) {
  bool all = t.dims > 1;
  for (int a = 3 - t.dims; a < 3; ++a) all = all && with_length(t.grid[a], [](auto, auto) {});
  return all;
}

/// The part of an axis in FFT order that holds `count` points from `first` on, around the grid's end too.
__device__ Reach reach_of(int first, int count, int extent) {
  Reach reach{0, 0};
  for (int i = 0; i < count; ++i) {
    const int point = (first + i) % extent;
    if (point < (extent + 1) / 2)
      reach.before = max(reach.before, point + 1);
    else
      reach.after = max(reach.after, extent - point);
  }
  return reach;
}
__device__ void extend(Reach* to, Reach by) {
  // The values only grow: a stale value that is large enough is still right.
  const volatile Reach* const now = to;
  if (now->before < by.before) atomicMax(&to->before, by.before);
  if (now->after < by.after) atomicMax(&to->after, by.after);
}
/// Calls visit(b) for each kReachEdge of points, number b, that has one of `count` points from `first` on.
template <class Visit>
__device__ void for_blocks(int first, int count, int extent, const Visit& visit) {
  for (int i = 0; i < count;) {
    const int point = (first + i) % extent, rest = min(kReachEdge - point % kReachEdge, extent - point);
    visit(point / kReachEdge);
    i += rest;
  }
}

/// Computes the reach of footprints: of the given bins, or, for gridding alone, of tiles that have samples. `reach`:
/// [of_row] along y, then [y, of_row] along z.
__global__ void reach_kernel(Tiling t, const BinPiece* bins, const Piece* pieces, std::int64_t count, int of_row,
                             Reach* reach) {
  ECHOTRAIN_GRID_STRIDE(i, count) {
    int origin[3], covered[3];
    if (bins != nullptr) {
      for (int a = 0; a < 3; ++a) {
        origin[a] = bins[i].origin[a];
        covered[a] = bin_edge(a, t.dims, t.width) + (a >= 3 - t.dims ? t.width - 1 : 0);
      }
    } else {
      if (pieces[i].count == 0) continue;
      const TilePlace place = place_of(t, pieces[i].tile);
      for (int a = 0; a < 3; ++a) origin[a] = place.origin[a], covered[a] = place.extent[a];
    }
    const Reach y = reach_of(origin[1], covered[1], t.grid[1]), z = reach_of(origin[0], covered[0], t.grid[0]);
    for_blocks(origin[2], covered[2], t.grid[2], [&](int bx) {
      extend(reach + bx, y);
      if (t.dims < 3) return;
      for_blocks(origin[1], covered[1], t.grid[1], [&](int by) { extend(reach + (1 + by) * of_row + bx, z); });
    });
  }
}

}  // namespace

void deapodize(Context& context, const NufftPlan::Impl& plan, const cfloat* grid, std::int64_t coils, cfloat* image) {
  const Tiling& t = plan.tiling;
  const std::int64_t rows = coils * t.image[0] * t.image[1];
  const dim3 threads(64, 4);
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((rows + 3) / 4, 1 << 20));
  deapodize_kernel<<<blocks, threads, 0, stream_of(context)>>>(t, plan.deapodization.data(), device_view(grid), rows,
                                                               device_view(image));
  check_launch("deapodize");
}

void to_images(Context& context, const NufftPlan::Impl& plan, cfloat* grid, std::int64_t coils, cfloat* image,
               GridOf grid_of) {
  const Tiling& t = plan.tiling;
  if (!has_lines(t)) {
    transform(context, plan, grid, coils, Direction::inverse);
    deapodize(context, plan, grid, coils, image);
    return;
  }
  const GridColumns columns(t, grid, grid_of == GridOf::plan && plan.reach.size() > 0 ? plan.reach.data() : nullptr);
  if (t.dims == 3) transform_columns<Direction::inverse>(context, t.grid[0], columns.along_z, coils);
  transform_columns<Direction::inverse>(context, t.grid[1], columns.along_y, coils * t.image[0]);
  transform_rows<Direction::inverse>(context, plan, static_cast<const float2*>(device_view(grid)), coils,
                                     device_view(image));
}

void to_grid(Context& context, const NufftPlan::Impl& plan, const cfloat* image, std::int64_t coils, cfloat* grid) {
  const Tiling& t = plan.tiling;
  if (!has_lines(t)) {
    apodize(context, plan, image, coils, grid);
    transform(context, plan, grid, coils, Direction::forward);
    return;
  }
  const GridColumns columns(t, grid, plan.reach.data());
  transform_rows<Direction::forward>(context, plan, device_view(grid), coils, device_view(image));
  transform_columns<Direction::forward>(context, t.grid[1], columns.along_y, coils * t.image[0]);
  if (t.dims == 3) transform_columns<Direction::forward>(context, t.grid[0], columns.along_z, coils);
}

void find_reach(Context& context, NufftPlan::Impl& plan) {
  const Tiling& t = plan.tiling;
  if (t.dims < 2) return;
  const std::int64_t of_row = (t.grid[2] + kReachEdge - 1) / kReachEdge,
                     rows = t.dims > 2 ? (t.grid[1] + kReachEdge - 1) / kReachEdge : 0;
  plan.reach = context.zeros<Reach>({of_row * (1 + rows)});
  const bool binned = plan.options.use == NufftUse::all;
  const std::int64_t count = binned ? plan.bins.size() : plan.pieces.size();
  if (count == 0) return;
  reach_kernel<<<blocks_for(count), kThreads, 0, stream_of(context)>>>(
      t, binned ? plan.bins.data() : nullptr, plan.pieces.data(), count, static_cast<int>(of_row), plan.reach.data());
  check_launch("reach");
}

}  // namespace echotrain::numerics::cuda
