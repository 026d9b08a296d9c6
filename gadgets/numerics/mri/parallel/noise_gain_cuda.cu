#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/mri/parallel/parallel_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::int64_t kChunkBytes = 64 << 20;  // bytes kept for the voxels that are worked on at a time

/// The part of an acquired row in an image: phase times its weight in unmixing (kernel kOfRow), or times the map (-1),
/// or times the source of a kernel, combined by the maps.
struct GainPart {
  std::int32_t ky, kz, source;
  float sign;
};
constexpr std::int32_t kOfRow = -2;

/// The data that all voxels share.
struct Gain {
  const float2 *conjugate, *maps;
  const float* kernels;
  std::int64_t sources, coils, nz, ny, nx;
  const float2 *turns_y, *turns_z;  // exp(2 pi i m / padded)
  std::int32_t padded_y, padded_z;
  const GainPart* parts;
  const std::int32_t* first_part;  // first part of each touched row; then the number of all parts
  std::int64_t touched;
  double untouched, all_rows, on_lattice, samples, points;
  float *deviation, *g;

  __device__ std::int64_t voxels() const { return nz * ny * nx; }
};

/// The voxels that are worked on, and per voxel: combined [source, source coil, voxel], squares [coil, voxel].
struct Chunk {
  std::int64_t first, count;
  float2* combined;
  double* squares;
};

/// One thread per source, its coil and voxel: sum_c conj(S_c) g[c, source coil](source).
__global__ void combine_sources(Gain w, Chunk chunk) {
  ECHOTRAIN_GRID_STRIDE(i, w.sources * w.coils * chunk.count) {
    const std::int64_t v = chunk.first + i % chunk.count, from = i / chunk.count % w.coils;
    const std::int64_t source = i / chunk.count / w.coils, x = v % w.nx;
    const float* kernel = w.kernels +
                          (((x / kHybridLanes * w.sources + source) * w.coils * w.coils) + from) * 2 * kHybridLanes +
                          x % kHybridLanes;
    float2 sum = make_float2(0.0f, 0.0f);
    for (std::int64_t c = 0; c < w.coils; ++c, kernel += w.coils * 2 * kHybridLanes)
      sum = sum + conjugate(w.maps[c * w.voxels() + v]) * make_float2(kernel[0], kernel[kHybridLanes]);
    chunk.combined[i] = sum;
  }
}

__device__ std::int32_t wrapped_product(std::int32_t k, std::int32_t r, std::int32_t n) {
  const std::int32_t m = k * r % n;
  return m < 0 ? m + n : m;
}

__device__ double square(float2 a) { return static_cast<double>(a.x) * a.x + static_cast<double>(a.y) * a.y; }

/// One thread per coil and voxel: the squares of all rows' coefficients.
__global__ void add_squares(Gain w, Chunk chunk) {
  ECHOTRAIN_GRID_STRIDE(i, w.coils * chunk.count) {
    const std::int64_t v = chunk.first + i % chunk.count, coil = i / chunk.count, line = v / w.nx;
    const auto y = static_cast<std::int32_t>(line % w.ny - w.ny / 2),
               z = static_cast<std::int32_t>(line / w.ny - w.nz / 2);
    const float2 weight = w.conjugate[coil * w.voxels() + v], map = w.maps[coil * w.voxels() + v];
    double sum = w.untouched * square(weight);
    for (std::int64_t row = 0; row < w.touched; ++row) {
      float2 coefficient = make_float2(0.0f, 0.0f);
      for (std::int32_t p = w.first_part[row]; p < w.first_part[row + 1]; ++p) {
        const GainPart part = w.parts[p];
        const float2 turn =
            w.turns_y[wrapped_product(part.ky, y, w.padded_y)] * w.turns_z[wrapped_product(part.kz, z, w.padded_z)];
        const float2 value = part.source == kOfRow ? conjugate(weight)
                             : part.source < 0     ? conjugate(map)
                                                   : chunk.combined[part.source * w.coils * chunk.count + i];
        coefficient = coefficient + part.sign * turn * value;
      }
      sum += square(coefficient);
    }
    chunk.squares[i] = sum;
  }
}

/// One thread per voxel.
__global__ void join_squares(Gain w, Chunk chunk) {
  ECHOTRAIN_GRID_STRIDE(i, chunk.count) {
    const std::int64_t v = chunk.first + i;
    double sum = 0, full = 0;
    for (std::int64_t c = 0; c < w.coils; ++c) {
      sum += chunk.squares[c * chunk.count + i];
      full += w.all_rows * square(w.maps[c * w.voxels() + v]);
    }
    w.deviation[v] = static_cast<float>(sqrt(w.samples * sum) / w.points);
    w.g[v] = full > 0 ? static_cast<float>(sqrt(sum / full * w.on_lattice / w.all_rows)) : 0.0f;
  }
}

template <class T>
Array<T> placed(Context& context, const std::vector<T>& values) {
  HostArray<T> host = context.allocate_host<T>({static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), host.data());
  return context.place<T>(host);
}

Array<cfloat> turns_of(Context& context, std::int64_t n) {
  std::vector<cfloat> turns;
  for (std::int64_t m = 0; m < n; ++m)
    turns.push_back(cfloat(std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(m) / static_cast<double>(n))));
  return placed(context, turns);
}

}  // namespace

void noise_gain(Context& context, const NoiseWork& work) {
  const cudaStream_t stream = stream_of(context);
  std::vector<GainPart> parts;
  std::vector<std::int32_t> first_part{0};
  for (const TouchedRow& row : work.touched) {
    const auto add = [&](std::int64_t ky, std::int64_t kz, std::int32_t source, float sign) {
      parts.push_back({static_cast<std::int32_t>(ky), static_cast<std::int32_t>(kz), source, sign});
    };
    if (row.on_lattice) add(row.ky, row.kz, kOfRow, 1);
    for (const TouchedRow::Part& part : row.parts) add(part.ky, part.kz, part.source, part.sign);
    first_part.push_back(static_cast<std::int32_t>(parts.size()));
  }
  const auto parts_there = placed(context, parts);
  const auto first_there = placed(context, first_part);
  const Array<cfloat> turns_y = turns_of(context, work.padded_y), turns_z = turns_of(context, work.padded_z);
  const Gain gain{.conjugate = device_view(work.conjugate),
                  .maps = device_view(work.maps),
                  .kernels = work.kernels,
                  .sources = work.sources,
                  .coils = work.coils,
                  .nz = work.image[0],
                  .ny = work.image[1],
                  .nx = work.image[2],
                  .turns_y = device_view(turns_y.data()),
                  .turns_z = device_view(turns_z.data()),
                  .padded_y = static_cast<std::int32_t>(work.padded_y),
                  .padded_z = static_cast<std::int32_t>(work.padded_z),
                  .parts = parts_there.data(),
                  .first_part = first_there.data(),
                  .touched = static_cast<std::int64_t>(work.touched.size()),
                  .untouched = work.untouched,
                  .all_rows = work.all_rows,
                  .on_lattice = work.on_lattice,
                  .samples = work.samples,
                  .points = work.points,
                  .deviation = work.deviation,
                  .g = work.g};
  const bool combine = !parts.empty() && work.sources > 0;
  const std::int64_t voxels = volume(work.image), rows = combine ? work.sources : 0;
  const std::int64_t per_voxel = work.coils * (rows * static_cast<std::int64_t>(sizeof(cfloat)) + 8);
  const std::int64_t most = std::clamp<std::int64_t>(kChunkBytes / per_voxel, 1, voxels);
  Array<cfloat> combined = context.allocate<cfloat>({rows, work.coils, most});
  Array<double> squares = context.allocate<double>({work.coils, most});
  for (std::int64_t first = 0; first < voxels; first += most) {
    context.check_stop();
    const Chunk chunk{first, std::min(most, voxels - first), device_view(combined.data()), squares.data()};
    if (combine) {
      combine_sources<<<blocks_for(rows * work.coils * chunk.count), kThreads, 0, stream>>>(gain, chunk);
      check_launch("combine_sources");
    }
    add_squares<<<blocks_for(work.coils * chunk.count), kThreads, 0, stream>>>(gain, chunk);
    check_launch("add_squares");
    join_squares<<<blocks_for(chunk.count), kThreads, 0, stream>>>(gain, chunk);
    check_launch("join_squares");
    if (first + most < voxels) context.cache<LaunchThrottle>().step(context);
  }
}

}  // namespace echotrain::numerics::cuda
