// The direct transform apart from its matrix product (direct_transform_tensor_cuda.cu): the samples' factors, the image
// from the sums, and voxels that form no grid.
#include <algorithm>

#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/transforms/exact/direct_transform_ops.h"
#include "gadgets/numerics/transforms/exact/direct_transform_tiles.cuh"

namespace echotrain::numerics::cuda {
namespace {

__global__ void weigh_kernel(SampleFactors factors, const float* weights, std::int64_t n, std::int64_t coils,
                             double* coordinates, float2* samples) {
  ECHOTRAIN_GRID_STRIDE(s, n) {
    double* k = coordinates + s * factors.dims;
    bool finite = true;
    for (int a = 0; a < factors.dims; ++a) finite = finite && isfinite(k[a]);
    float2 factor = make_float2(0.0f, 0.0f);
    if (finite) {
      double size = weights == nullptr ? 1.0 : weights[s];
      if (factors.basis == VoxelBasis::box)
        for (int a = 0; a < factors.dims; ++a)
          for (int i = 0; i < factors.power && k[a] != 0; ++i) size *= sinpi(k[a]) / (3.14159265358979323846 * k[a]);
      double sine, cosine;
      sincospi(2 * (k[0] * factors.shift - rint(k[0] * factors.shift)), &sine, &cosine);
      factor = make_float2(static_cast<float>(size * cosine), static_cast<float>(size * sine));
    } else {
      for (int a = 0; a < factors.dims; ++a) k[a] = 0;
    }
    // A sample whose factor is 0 may hold any data, such as NaN.
    const bool counts = factor.x != 0.0f || factor.y != 0.0f;
    for (std::int64_t c = 0; c < coils; ++c)
      samples[s * coils + c] = counts ? factor * samples[s * coils + c] : make_float2(0.0f, 0.0f);
  }
}

/// One thread per pair of voxels at +x and -x.
__global__ void image_kernel(DirectGrid grid, DirectTiles tiles, std::int64_t columns, const float* sums,
                             float2* image) {
  const std::int64_t cosines = (grid.nx + 1) / 2, n_tiles = tiles.rows / 8;
  const bool even = grid.nx % 2 == 0;
  ECHOTRAIN_GRID_STRIDE(i, grid.coils * columns * cosines) {
    const std::int64_t x = i % cosines, column = i / cosines % columns + grid.first_column,
                       coil = i / (cosines * columns);
    const std::int64_t y = column % grid.ny - tiles.y0, z = column / grid.ny - tiles.z0;
    const std::int64_t group = z * tiles.per_row + y / kGroupColumns, tile = group / kGroups;
    const auto sum = [&](std::int64_t row) {
      const std::int64_t block = (coil * tiles.blocks + row / tiles.rows) * tiles.tiles + tile,
                         tile_of_warp = (block * kGroups + group % kGroups) * n_tiles + row % tiles.rows / 8,
                         lane = y % kGroupColumns * 4 + row % 8 / 2;
      const float* four = sums + (tile_of_warp * 32 + lane) * 4;
      return make_float2(four[row % 2], four[2 + row % 2]);
    };
    const float2 cosine = sum(x);
    float2 sine = make_float2(0.0f, 0.0f);
    if (even || x > 0) sine = sum(cosines + x - (even ? 0 : 1));
    float2* line = image + (coil * grid.ny * grid.nz + column) * grid.nx;
    line[grid.nx / 2 + x] = make_float2(cosine.x - sine.y, cosine.y + sine.x);
    line[grid.nx / 2 - x - (even ? 1 : 0)] = make_float2(cosine.x + sine.y, cosine.y - sine.x);
  }
}

constexpr int kSharers = 1024;  // threads that share the samples of a voxel

/// A block per voxel; threads share the samples, whose sums are added in a fixed order.
__global__ void __launch_bounds__(kSharers)
    at_kernel(int dims, const double* coordinates, const float2* samples, std::int64_t n, std::int64_t coils,
              const double* voxels, std::int64_t count, double2* sums) {
  __shared__ double re[kSharers], im[kSharers];
  for (std::int64_t v = blockIdx.x; v < count; v += gridDim.x)
    for (std::int64_t c = 0; c < coils; ++c) {
      double sum_re = 0, sum_im = 0;
      for (std::int64_t s = threadIdx.x; s < n; s += kSharers) {
        double phase = 0, sine, cosine;
        for (int a = 0; a < dims; ++a) phase += coordinates[s * dims + a] * voxels[v * dims + a];
        sincospi(2 * (phase - rint(phase)), &sine, &cosine);
        const float2 d = samples[s * coils + c];
        sum_re += d.x * cosine - d.y * sine;
        sum_im += d.x * sine + d.y * cosine;
      }
      re[threadIdx.x] = sum_re;
      im[threadIdx.x] = sum_im;
      __syncthreads();
      for (int half = kSharers / 2; half > 0; half /= 2) {
        if (static_cast<int>(threadIdx.x) < half) {
          re[threadIdx.x] += re[threadIdx.x + half];
          im[threadIdx.x] += im[threadIdx.x + half];
        }
        __syncthreads();
      }
      if (threadIdx.x == 0) {
        sums[c * count + v].x += re[0];
        sums[c * count + v].y += im[0];
      }
      __syncthreads();
    }
}

__global__ void round_kernel(const double2* sums, std::int64_t n, float2* out) {
  ECHOTRAIN_GRID_STRIDE(i, n) out[i] = make_float2(static_cast<float>(sums[i].x), static_cast<float>(sums[i].y));
}

__global__ void pick_kernel(const float2* image, std::int64_t voxels, std::int64_t coils, const std::int64_t* chosen,
                            std::int64_t count, float2* out) {
  ECHOTRAIN_GRID_STRIDE(i, coils * count) out[i] = image[i / count * voxels + chosen[i % count]];
}

/// One block per row of q.
__global__ void hermitian_kernel(DirectGrid grid, const float2* half, float2* q) {
  const std::int64_t row = blockIdx.x;
  const auto nz = static_cast<int>(grid.nz), ny = static_cast<int>(grid.ny), nx = static_cast<int>(grid.nx);
  const auto lag_of = [](int at, int n) { return at < (n + 1) / 2 ? at : at - n; };
  const auto is_edge = [](int lag, int n) { return n > 1 && lag == -n / 2; };
  const int z = lag_of(static_cast<int>(row / ny), nz), y = lag_of(static_cast<int>(row % ny), ny);
  const bool edge = is_edge(z, nz) || is_edge(y, ny);
  for (int i = static_cast<int>(threadIdx.x); i < nx; i += static_cast<int>(blockDim.x)) {
    const int x = lag_of(i, nx);
    float2 value = make_float2(0.0f, 0.0f);
    if (!edge && !is_edge(x, nx)) {
      const bool mirrored = z < 0 || (z == 0 && (y < 0 || (y == 0 && x < 0)));
      const int sign = mirrored ? -1 : 1;
      const std::int64_t column = static_cast<std::int64_t>(sign * z + nz / 2) * ny + sign * y + ny / 2;
      value = half[(column - grid.first_column) * nx + sign * x + nx / 2];
      if (mirrored) value.y = -value.y;
      if (row == 0 && i == 0) value.y = 0;
    }
    q[row * nx + i] = value;
  }
}

const double2* device_view(const cdouble* data) { return reinterpret_cast<const double2*>(data); }
double2* device_view(cdouble* data) { return reinterpret_cast<double2*>(data); }
using numerics::cuda::device_view;

}  // namespace

void direct_get(Context& context, const DirectGrid& grid, const float* sums, cfloat* image) {
  const std::int64_t columns = grid.columns();
  image_kernel<<<blocks_for(grid.coils * columns * grid.cosines()), kThreads, 0, stream_of(context)>>>(
      grid, direct_tiles(context, grid), columns, sums, device_view(image));
  check_launch("direct transform's image");
}

void direct_at(Context& context, int dims, const double* coordinates, const cfloat* samples, std::int64_t n,
               std::int64_t coils, const double* voxels, std::int64_t count, cdouble* sums) {
  at_kernel<<<static_cast<unsigned>(std::min<std::int64_t>(count, 1 << 20)), kSharers, 0, stream_of(context)>>>(
      dims, coordinates, device_view(samples), n, coils, voxels, count, device_view(sums));
  check_launch("direct transform at points");
}

void round_sums(Context& context, const cdouble* sums, std::int64_t n, cfloat* out) {
  round_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(device_view(sums), n, device_view(out));
  check_launch("rounding sums");
}

void pick_voxels(Context& context, const cfloat* image, std::int64_t voxels, std::int64_t coils,
                 const std::int64_t* chosen, std::int64_t count, cfloat* out) {
  pick_kernel<<<blocks_for(coils * count), kThreads, 0, stream_of(context)>>>(device_view(image), voxels, coils, chosen,
                                                                              count, device_view(out));
  check_launch("picking voxels");
}

void weigh_samples(Context& context, const SampleFactors& factors, const float* weights, std::int64_t n,
                   std::int64_t coils, double* coordinates, cfloat* samples) {
  weigh_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(factors, weights, n, coils, coordinates,
                                                                   device_view(samples));
  check_launch("weighing samples");
}

void fill_hermitian(Context& context, const DirectGrid& grid, const cfloat* half, cfloat* q) {
  const auto threads = static_cast<unsigned>(std::min<std::int64_t>(kThreads, (grid.nx + 31) / 32 * 32));
  hermitian_kernel<<<static_cast<unsigned>(grid.nz * grid.ny), threads, 0, stream_of(context)>>>(
      grid, device_view(half), device_view(q));
  check_launch("completing a point spread function");
}

}  // namespace echotrain::numerics::cuda
