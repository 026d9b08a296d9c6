#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/inverse/encoding/masked_fourier_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// The index in an array of n points, centred at floor(n / 2), of element `at` of a transform of p points; outside 0 ..
/// n - 1 where the array has no such point.
__device__ std::int64_t centred_index(std::int64_t at, std::int64_t n, std::int64_t p) {
  return (at < (p + 1) / 2 ? at : at - p) + n / 2;
}

/// One thread per element of the grid: the voxel that belongs there, times its map, or zero.
__global__ void images_to_grid_kernel(const float2* x, const float2* maps, std::int64_t batch, MaskedGrid g,
                                      float2* grid) {
  const std::int64_t points = g.padded[0] * g.padded[1] * g.padded[2], voxels = g.image[0] * g.image[1] * g.image[2];
  ECHOTRAIN_GRID_STRIDE(i, batch * points) {
    const std::int64_t rest = i % points, item = i / points;
    const std::int64_t at[3] = {rest / (g.padded[1] * g.padded[2]), rest / g.padded[2] % g.padded[1],
                                rest % g.padded[2]};
    std::int64_t voxel = 0;
    bool inside = true;
    for (int a = 0; a < 3; ++a) {
      const std::int64_t index = centred_index(at[a], g.image[a], g.padded[a]);
      inside = inside && index >= 0 && index < g.image[a];
      voxel = voxel * g.image[a] + index;
    }
    float2 value = make_float2(0.0f, 0.0f);
    if (inside) value = maps == nullptr ? x[item * voxels + voxel] : maps[item * voxels + voxel] * x[voxel];
    grid[i] = value;
  }
}

/// One thread per voxel; with maps, it adds the coils in their order.
__global__ void images_from_grid_kernel(const float2* grid, const float2* maps, std::int64_t batch, MaskedGrid g,
                                        float scale, bool add, float2* x) {
  const std::int64_t points = g.padded[0] * g.padded[1] * g.padded[2], voxels = g.image[0] * g.image[1] * g.image[2];
  ECHOTRAIN_GRID_STRIDE(i, (maps == nullptr ? batch : 1) * voxels) {
    const std::int64_t v = i % voxels;
    const std::int64_t at = g.voxel(v / (g.image[1] * g.image[2]), v / g.image[2] % g.image[1], v % g.image[2]);
    if (maps == nullptr) {
      x[i] = scale * grid[i / voxels * points + at];
      continue;
    }
    float2 sum = make_float2(0.0f, 0.0f);
    for (std::int64_t c = 0; c < batch; ++c) sum = sum + conjugate(maps[c * voxels + v]) * grid[c * points + at];
    x[i] = add ? x[i] + scale * sum : scale * sum;
  }
}

__global__ void scale_grid_kernel(const float* factors, std::int64_t batch, std::int64_t n, float2* grid) {
  ECHOTRAIN_GRID_STRIDE(i, batch * n) grid[i] = factors[i % n] * grid[i];
}

/// One thread per element of the grid: the sample that belongs there, times its weight, or zero.
__global__ void samples_to_grid_kernel(const float2* d, const float* mask, std::int64_t batch, MaskedGrid g,
                                       float2* grid) {
  const std::int64_t points = g.padded[0] * g.padded[1] * g.padded[2];
  const std::int64_t samples = g.encoded[0] * g.encoded[1] * g.encoded[2];
  ECHOTRAIN_GRID_STRIDE(i, batch * points) {
    const std::int64_t rest = i % points;
    const std::int64_t at[3] = {rest / (g.padded[1] * g.padded[2]), rest / g.padded[2] % g.padded[1],
                                rest % g.padded[2]};
    std::int64_t sample = 0;
    bool inside = true;
    for (int a = 0; a < 3; ++a) {
      const std::int64_t index = centred_index(at[a], g.encoded[a], g.padded[a]);
      inside = inside && index >= 0 && index < g.encoded[a];
      sample = sample * g.encoded[a] + index;
    }
    const float weight = inside ? mask[g.lines ? sample / g.encoded[2] : sample] : 0.0f;
    grid[i] = weight > 0 ? weight * d[i / points * samples + sample] : make_float2(0.0f, 0.0f);
  }
}

/// One thread per sample.
__global__ void samples_from_grid_kernel(const float2* grid, const float* mask, std::int64_t batch, MaskedGrid g,
                                         float scale, float2* d) {
  const std::int64_t points = g.padded[0] * g.padded[1] * g.padded[2];
  const std::int64_t samples = g.encoded[0] * g.encoded[1] * g.encoded[2];
  ECHOTRAIN_GRID_STRIDE(i, batch * samples) {
    const std::int64_t rest = i % samples;
    const std::int64_t index[3] = {rest / (g.encoded[1] * g.encoded[2]), rest / g.encoded[2] % g.encoded[1],
                                   rest % g.encoded[2]};
    bool inside = mask[g.lines ? rest / g.encoded[2] : rest] > 0;
    std::int64_t at = 0;
    for (int a = 0; a < 3; ++a) {
      inside = inside && MaskedGrid::fits(index[a], g.encoded[a], g.padded[a]);
      at = at * g.padded[a] + MaskedGrid::wrapped(index[a], g.encoded[a], g.padded[a]);
    }
    d[i] = inside ? scale * grid[i / samples * points + at] : make_float2(0.0f, 0.0f);
  }
}

}  // namespace

/// cuFFT's transforms of planes are faster than turning the images.
bool transforms_columns() { return false; }

void images_to_grid(Context& context, const MaskedGrid& g, const GridImages& images, const cfloat* x, cfloat* grid) {
  images_to_grid_kernel<<<blocks_for(images.batch * g.points()), kThreads, 0, stream_of(context)>>>(
      device_view(x), device_view(images.maps), images.batch, g, device_view(grid));
  check_launch("images_to_grid");
}

void images_from_grid(Context& context, const MaskedGrid& g, const GridImages& images, const cfloat* grid, float scale,
                      bool add, cfloat* x) {
  const std::int64_t items = images.maps == nullptr ? images.batch : 1;
  images_from_grid_kernel<<<blocks_for(items * g.voxels()), kThreads, 0, stream_of(context)>>>(
      device_view(grid), device_view(images.maps), images.batch, g, scale, add, device_view(x));
  check_launch("images_from_grid");
}

void scale_grid(Context& context, const float* factors, std::int64_t batch, std::int64_t n, cfloat* grid) {
  scale_grid_kernel<<<blocks_for(batch * n), kThreads, 0, stream_of(context)>>>(factors, batch, n, device_view(grid));
  check_launch("scale_grid");
}

void samples_to_grid(Context& context, const MaskedGrid& g, const float* mask, std::int64_t batch, const cfloat* d,
                     cfloat* grid) {
  samples_to_grid_kernel<<<blocks_for(batch * g.points()), kThreads, 0, stream_of(context)>>>(
      device_view(d), mask, batch, g, device_view(grid));
  check_launch("samples_to_grid");
}

void samples_from_grid(Context& context, const MaskedGrid& g, const float* mask, std::int64_t batch, const cfloat* grid,
                       float scale, cfloat* d) {
  samples_from_grid_kernel<<<blocks_for(batch * volume(g.encoded)), kThreads, 0, stream_of(context)>>>(
      device_view(grid), mask, batch, g, scale, device_view(d));
  check_launch("samples_from_grid");
}

}  // namespace echotrain::numerics::cuda
