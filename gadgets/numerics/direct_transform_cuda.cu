// Tables of the phases along each axis for some samples at a time, made in fp64; then a block per tile of rows (cosines
// and sines along x) and columns, which sums groups of samples in registers: a real matrix product in fp32.
#include <algorithm>

#include "gadgets/numerics/cuda_support.cuh"
#include "gadgets/numerics/direct_transform_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::int64_t kChunk = 64 * kDirectGroup;  // samples whose tables are kept at a time
constexpr int kTileRows = 64, kTileColumns = 64;    // of a block; columns are complex
constexpr int kStage = 8;                           // samples in shared memory at a time

std::int64_t padded_rows(const DirectGrid& grid) { return (grid.nx + kTileRows - 1) / kTileRows * kTileRows; }

__device__ float2 wave(double turns) {
  double sine, cosine;
  sincospi(2 * (turns - rint(turns)), &sine, &cosine);
  return make_float2(static_cast<float>(cosine), static_cast<float>(sine));
}

/// rows: [sample, padded row]; y, z: [sample, extent].
__global__ void table_kernel(DirectGrid grid, std::int64_t padded, const double* coordinates, std::int64_t n,
                             float* rows, float2* y, float2* z) {
  const std::int64_t per_sample = padded + grid.ny + grid.nz, cosines = (grid.nx + 1) / 2;
  ECHOTRAIN_GRID_STRIDE(i, n * per_sample) {
    const std::int64_t s = i / per_sample, at = i % per_sample;
    const double* k = coordinates + s * grid.dims;
    if (at < padded) {
      float value = 0;
      const bool even = grid.nx % 2 == 0;
      if (at < grid.nx) {
        const bool sine = at >= cosines;
        const std::int64_t position = sine ? at - cosines + (even ? 0 : 1) : at;
        const float2 e = wave(k[0] * (static_cast<double>(position) + (even ? 0.5 : 0.0)));
        value = sine ? e.y : e.x;
      }
      rows[s * padded + at] = value;
    } else if (at < padded + grid.ny) {
      const std::int64_t p = at - padded;
      y[s * grid.ny + p] = wave(k[1] * static_cast<double>(p - grid.ny / 2));
    } else {
      const std::int64_t p = at - padded - grid.ny;
      z[s * grid.nz + p] = grid.dims > 2 ? wave(k[2] * static_cast<double>(p - grid.nz / 2)) : make_float2(1.0f, 0.0f);
    }
  }
}

__device__ float2 product(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

/// sums: [coil, row, column] complex. blockDim = (16, 16), each thread 4 rows x 4 columns; gridDim = (tiles of columns,
/// tiles of rows, coils).
__global__ void __launch_bounds__(256)
    multiply_kernel(DirectGrid grid, std::int64_t columns, std::int64_t padded, const float* rows, const float2* y,
                    const float2* z, const float2* samples, std::int64_t n, float2* sums) {
  __shared__ float a[kStage][kTileRows];
  __shared__ float2 b[kStage][kTileColumns];
  const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * 16 + tx;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * kTileColumns,
                     first_row = static_cast<std::int64_t>(blockIdx.y) * kTileRows, coil = blockIdx.z;
  float2* to = sums + coil * padded * columns;
  for (std::int64_t group = 0; group < n; group += kDirectGroup) {
    float2 sum[4][4] = {};
    const std::int64_t end = min(n, group + kDirectGroup);
    for (std::int64_t base = group; base < end; base += kStage) {
      __syncthreads();
      for (int i = thread; i < kStage * kTileRows; i += 256) {
        const std::int64_t s = base + i / kTileRows;
        a[i / kTileRows][i % kTileRows] = s < end ? rows[s * padded + first_row + i % kTileRows] : 0.0f;
      }
      for (int i = thread; i < kStage * kTileColumns; i += 256) {
        const std::int64_t s = base + i / kTileColumns, column = first_column + i % kTileColumns;
        float2 value = make_float2(0.0f, 0.0f);
        if (s < end && column < columns) {
          const std::int64_t voxel = column + grid.first_column;
          value = product(product(samples[s * grid.coils + coil], z[s * grid.nz + voxel / grid.ny]),
                          y[s * grid.ny + voxel % grid.ny]);
        }
        b[i / kTileColumns][i % kTileColumns] = value;
      }
      __syncthreads();
      for (int s = 0; s < kStage; ++s)
        for (int r = 0; r < 4; ++r)
          for (int c = 0; c < 4; ++c) {
            const float factor = a[s][ty + 16 * r];
            const float2 value = b[s][tx + 16 * c];
            sum[r][c].x += factor * value.x;
            sum[r][c].y += factor * value.y;
          }
    }
    for (int r = 0; r < 4; ++r)
      for (int c = 0; c < 4; ++c) {
        const std::int64_t row = first_row + ty + 16 * r, column = first_column + tx + 16 * c;
        if (row >= padded || column >= columns) continue;
        float2& total = to[row * columns + column];
        total.x += sum[r][c].x;
        total.y += sum[r][c].y;
      }
  }
}

/// One thread per pair of voxels at +x and -x.
__global__ void image_kernel(DirectGrid grid, std::int64_t columns, std::int64_t padded, const float2* sums,
                             float2* image) {
  const std::int64_t cosines = (grid.nx + 1) / 2;
  const bool even = grid.nx % 2 == 0;
  ECHOTRAIN_GRID_STRIDE(i, grid.coils * columns * cosines) {
    const std::int64_t x = i % cosines, column = i / cosines % columns, coil = i / (cosines * columns);
    const float2* from = sums + coil * padded * columns + column;
    const float2 cosine = from[x * columns];
    float2 sine = make_float2(0.0f, 0.0f);
    if (even || x > 0) sine = from[(cosines + x - (even ? 0 : 1)) * columns];
    float2* line = image + (coil * grid.ny * grid.nz + grid.first_column + column) * grid.nx;
    line[grid.nx / 2 + x] = make_float2(cosine.x - sine.y, cosine.y + sine.x);
    line[grid.nx / 2 - x - (even ? 1 : 0)] = make_float2(cosine.x + sine.y, cosine.y - sine.x);
  }
}

/// A block per voxel; threads share the samples, whose sums are added in a fixed order.
__global__ void at_kernel(int dims, const double* coordinates, const float2* samples, std::int64_t n,
                          std::int64_t coils, const double* voxels, std::int64_t count, float2* out) {
  __shared__ double re[kThreads], im[kThreads];
  for (std::int64_t v = blockIdx.x; v < count; v += gridDim.x)
    for (std::int64_t c = 0; c < coils; ++c) {
      double sum_re = 0, sum_im = 0;
      for (std::int64_t s = threadIdx.x; s < n; s += kThreads) {
        double turns = 0;
        for (int a = 0; a < dims; ++a) turns += coordinates[s * dims + a] * voxels[v * dims + a];
        const float2 e = wave(turns), d = samples[s * coils + c];
        sum_re += static_cast<double>(d.x) * e.x - static_cast<double>(d.y) * e.y;
        sum_im += static_cast<double>(d.x) * e.y + static_cast<double>(d.y) * e.x;
      }
      re[threadIdx.x] = sum_re;
      im[threadIdx.x] = sum_im;
      __syncthreads();
      for (int half = kThreads / 2; half > 0; half /= 2) {
        if (static_cast<int>(threadIdx.x) < half) {
          re[threadIdx.x] += re[threadIdx.x + half];
          im[threadIdx.x] += im[threadIdx.x + half];
        }
        __syncthreads();
      }
      if (threadIdx.x == 0) out[c * count + v] = make_float2(static_cast<float>(re[0]), static_cast<float>(im[0]));
      __syncthreads();
    }
}

__global__ void scale_kernel(const float2* factors, std::int64_t n, std::int64_t coils, float2* samples) {
  ECHOTRAIN_GRID_STRIDE(i, n * coils) {
    const float2 factor = factors[i / coils];
    // Data of a sample that counts nothing may be anything.
    samples[i] = factor.x == 0.0f && factor.y == 0.0f ? make_float2(0.0f, 0.0f) : product(factor, samples[i]);
  }
}

__global__ void hermitian_kernel(DirectGrid grid, const float2* half, float2* q) {
  const std::int64_t n[3] = {grid.nz, grid.ny, grid.nx};
  ECHOTRAIN_GRID_STRIDE(i, n[0] * n[1] * n[2]) {
    const std::int64_t at[3] = {i / (n[1] * n[2]), i / n[2] % n[1], i % n[2]};
    std::int64_t lag[3];
    bool edge = false;
    for (int a = 0; a < 3; ++a) {
      lag[a] = at[a] < (n[a] + 1) / 2 ? at[a] : at[a] - n[a];
      edge = edge || (n[a] > 1 && lag[a] == -n[a] / 2);
    }
    float2 value = make_float2(0.0f, 0.0f);
    if (!edge) {
      std::int64_t column = (lag[0] + n[0] / 2) * n[1] + lag[1] + n[1] / 2;
      const bool mirrored = column < grid.first_column;
      if (mirrored) {
        for (int a = 0; a < 3; ++a) lag[a] = -lag[a];
        column = (lag[0] + n[0] / 2) * n[1] + lag[1] + n[1] / 2;
      }
      value = half[column * n[2] + lag[2] + n[2] / 2];
      if (mirrored) value.y = -value.y;
    }
    q[i] = value;
  }
}

template <class T>
Array<T> to_device(Context& context, const T* from, std::int64_t count) {
  return context.upload<T>({from, {count}});
}

}  // namespace

std::int64_t direct_sums(const DirectGrid& grid) { return 2 * grid.coils * padded_rows(grid) * grid.columns(); }

void direct_add(Context& context, const DirectGrid& grid, const double* coordinates, const cfloat* samples,
                std::int64_t n, float* sums) {
  const cudaStream_t stream = stream_of(context);
  const std::int64_t padded = padded_rows(grid), columns = grid.columns(), most = std::min(n, kChunk);
  const Array<double> k = to_device(context, coordinates, n * grid.dims);
  Array<float> rows = context.allocate<float>({most, padded});
  Array<cfloat> y = context.allocate<cfloat>({most, grid.ny}), z = context.allocate<cfloat>({most, grid.nz});
  const dim3 blocks(static_cast<unsigned>((columns + kTileColumns - 1) / kTileColumns),
                    static_cast<unsigned>(padded / kTileRows), static_cast<unsigned>(grid.coils));
  for (std::int64_t at = 0; at < n; at += kChunk) {
    const std::int64_t count = std::min(kChunk, n - at);
    table_kernel<<<blocks_for(count * (padded + grid.ny + grid.nz)), kThreads, 0, stream>>>(
        grid, padded, k.data() + at * grid.dims, count, rows.data(), device_view(y.data()), device_view(z.data()));
    check_launch("direct transform's tables");
    multiply_kernel<<<blocks, dim3(16, 16), 0, stream>>>(grid, columns, padded, rows.data(), device_view(y.data()),
                                                         device_view(z.data()), device_view(samples + at * grid.coils),
                                                         count, reinterpret_cast<float2*>(sums));
    check_launch("direct transform");
  }
}

void direct_get(Context& context, const DirectGrid& grid, const float* sums, cfloat* image) {
  const std::int64_t columns = grid.columns();
  image_kernel<<<blocks_for(grid.coils * columns * grid.cosines()), kThreads, 0, stream_of(context)>>>(
      grid, columns, padded_rows(grid), reinterpret_cast<const float2*>(sums), device_view(image));
  check_launch("direct transform's image");
}

void direct_at(Context& context, int dims, const double* coordinates, const cfloat* samples, std::int64_t n,
               std::int64_t coils, const double* voxels, std::int64_t count, cfloat* out) {
  const Array<double> k = to_device(context, coordinates, n * dims), r = to_device(context, voxels, count * dims);
  at_kernel<<<static_cast<unsigned>(std::min<std::int64_t>(count, 1 << 20)), kThreads, 0, stream_of(context)>>>(
      dims, k.data(), device_view(samples), n, coils, r.data(), count, device_view(out));
  check_launch("direct transform at points");
}

void scale_samples(Context& context, const cfloat* factors, std::int64_t n, std::int64_t coils, cfloat* samples) {
  const Array<cfloat> on_device = to_device(context, factors, n);
  scale_kernel<<<blocks_for(n * coils), kThreads, 0, stream_of(context)>>>(device_view(on_device.data()), n, coils,
                                                                           device_view(samples));
  check_launch("scaling samples");
}

void fill_hermitian(Context& context, const DirectGrid& grid, const cfloat* half, cfloat* q) {
  hermitian_kernel<<<blocks_for(grid.nz * grid.ny * grid.nx), kThreads, 0, stream_of(context)>>>(
      grid, device_view(half), device_view(q));
  check_launch("completing a point spread function");
}

}  // namespace echotrain::numerics::cuda
