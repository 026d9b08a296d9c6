#include <algorithm>
#include <cfloat>

#include "gadgets/numerics/cuda_support.cuh"
#include "gadgets/numerics/toeplitz_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// Items transformed together.
constexpr std::int64_t kWorkBytes = 512ll << 20;

static_assert(SpectrumRange::kBlocks <= 1 << 16, "one block makes one range");

std::int64_t fast_extent(std::int64_t n) {
  for (std::int64_t m = n;; ++m) {
    std::int64_t rest = m;
    for (const int factor : {2, 3, 5})
      while (rest % factor == 0) rest /= factor;
    if (rest == 1) return m;
  }
}

/// One thread per element of the grid: the lag that belongs there, or zero.
__global__ void place_kernel(const float2* q, Extents n, Extents padded, int dims, float2* grid) {
  ECHOTRAIN_GRID_STRIDE(i, padded[0] * padded[1] * padded[2]) {
    const std::int64_t at[3] = {i / (padded[1] * padded[2]), i / padded[2] % padded[1], i % padded[2]};
    std::int64_t source = 0;
    bool inside = true;
    for (int a = 3 - dims; a < 3; ++a) {
      const std::int64_t lag = at[a] < n[a] ? at[a] : at[a] - padded[a];
      inside = inside && lag > -n[a];
      source = source * 2 * n[a] + (lag < 0 ? lag + 2 * n[a] : lag);
    }
    grid[i] = inside ? q[source] : make_float2(0.0f, 0.0f);
  }
}

__global__ void circulant_kernel(const float2* q, Extents n, int dims, float2* column) {
  ECHOTRAIN_GRID_STRIDE(i, n[0] * n[1] * n[2]) {
    const std::int64_t at[3] = {i / (n[1] * n[2]), i / n[2] % n[1], i % n[2]};
    float2 sum = make_float2(0.0f, 0.0f);
    for (int corner = 0; corner < 1 << dims; ++corner) {
      float weight = 1;
      std::int64_t source = 0;
      for (int a = 3 - dims; a < 3; ++a) {
        const bool negative = (corner >> (2 - a) & 1) != 0;
        const float share = static_cast<float>(at[a]) / static_cast<float>(n[a]);
        weight *= negative ? share : 1 - share;
        source = source * 2 * n[a] + at[a] + (negative ? n[a] : 0);  // lag at - n, wrapped
      }
      if (weight > 0) {
        sum.x += weight * q[source].x;
        sum.y += weight * q[source].y;
      }
    }
    column[i] = sum;
  }
}

__global__ void real_kernel(const float2* from, std::int64_t n, float scale, float* to, SpectrumRange* ranges) {
  __shared__ float least[kThreads], most[kThreads], imaginary[kThreads];
  float smallest = INFINITY, largest = -INFINITY, other = 0;
  ECHOTRAIN_GRID_STRIDE(i, n) {
    const float2 v = from[i];
    to[i] = scale * v.x;
    smallest = fminf(smallest, v.x);
    largest = fmaxf(largest, v.x);
    // What is not finite becomes infinite: fmaxf() would pass over NaN.
    other = fmaxf(other, isfinite(v.x) && isfinite(v.y) ? fabsf(v.y) : INFINITY);
  }
  least[threadIdx.x] = smallest, most[threadIdx.x] = largest, imaginary[threadIdx.x] = other;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      least[threadIdx.x] = fminf(least[threadIdx.x], least[threadIdx.x + half]);
      most[threadIdx.x] = fmaxf(most[threadIdx.x], most[threadIdx.x + half]);
      imaginary[threadIdx.x] = fmaxf(imaginary[threadIdx.x], imaginary[threadIdx.x + half]);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) ranges[blockIdx.x] = SpectrumRange{least[0], most[0], imaginary[0]};
}

/// grid = the images, times their maps where there are some, filled up with zeros.
__global__ void pad_kernel(const float2* x, const float2* maps, std::int64_t batch, Extents n, Extents padded,
                           float2* grid) {
  const std::int64_t item = padded[0] * padded[1] * padded[2], image = n[0] * n[1] * n[2];
  ECHOTRAIN_GRID_STRIDE(i, batch * item) {
    const std::int64_t rest = i % item, c = i / item;
    const std::int64_t at[3] = {rest / (padded[1] * padded[2]), rest / padded[2] % padded[1], rest % padded[2]};
    float2 value = make_float2(0.0f, 0.0f);
    if (at[0] < n[0] && at[1] < n[1] && at[2] < n[2]) {
      const std::int64_t v = (at[0] * n[1] + at[1]) * n[2] + at[2];
      value = x[maps == nullptr ? c * image + v : v];
      if (maps != nullptr) {
        const float2 m = maps[c * image + v];
        value = make_float2(value.x * m.x - value.y * m.y, value.x * m.y + value.y * m.x);
      }
    }
    grid[i] = value;
  }
}

__global__ void multiply_kernel(const float* spectrum, std::int64_t batch, std::int64_t item, float2* grid) {
  ECHOTRAIN_GRID_STRIDE(i, batch * item) {
    const float factor = spectrum[i % item];
    grid[i].x *= factor;
    grid[i].y *= factor;
  }
}

/// The images' part of the grids.
__global__ void cut_kernel(const float2* grid, std::int64_t batch, Extents n, Extents padded, float2* y) {
  const std::int64_t item = padded[0] * padded[1] * padded[2], image = n[0] * n[1] * n[2];
  ECHOTRAIN_GRID_STRIDE(i, batch * image) {
    const std::int64_t v = i % image, z = v / (n[1] * n[2]), row = v / n[2] % n[1];
    y[i] = grid[i / image * item + (z * padded[1] + row) * padded[2] + v % n[2]];
  }
}

/// One thread per voxel adds up the coils, in their order.
__global__ void combine_kernel(const float2* grid, const float2* maps, std::int64_t coils, Extents n, Extents padded,
                               bool add, float2* y) {
  const std::int64_t item = padded[0] * padded[1] * padded[2], image = n[0] * n[1] * n[2];
  ECHOTRAIN_GRID_STRIDE(v, image) {
    const std::int64_t z = v / (n[1] * n[2]), row = v / n[2] % n[1];
    const std::int64_t at = (z * padded[1] + row) * padded[2] + v % n[2];
    float2 sum = add ? y[v] : make_float2(0.0f, 0.0f);
    for (std::int64_t c = 0; c < coils; ++c) {
      const float2 a = grid[c * item + at], m = maps[c * image + v];
      sum.x += a.x * m.x + a.y * m.y;
      sum.y += a.y * m.x - a.x * m.y;
    }
    y[v] = sum;
  }
}

}  // namespace

std::int64_t toeplitz_extent(std::int64_t n) { return 2 * fast_extent(n); }

void toeplitz_place(Context& context, const cfloat* q, const Extents& n, const Extents& padded, int dims,
                    cfloat* grid) {
  place_kernel<<<blocks_for(volume(padded)), kThreads, 0, stream_of(context)>>>(device_view(q), n, padded, dims,
                                                                                device_view(grid));
  check_launch("toeplitz_place");
}

void circulant_place(Context& context, const cfloat* q, const Extents& n, int dims, cfloat* column) {
  circulant_kernel<<<blocks_for(volume(n)), kThreads, 0, stream_of(context)>>>(device_view(q), n, dims,
                                                                               device_view(column));
  check_launch("circulant_place");
}

void real_part(Context& context, const cfloat* from, std::int64_t n, float scale, float* to, SpectrumRange* ranges) {
  real_kernel<<<SpectrumRange::kBlocks, kThreads, 0, stream_of(context)>>>(device_view(from), n, scale, to, ranges);
  check_launch("real_part");
}

void toeplitz_prepare(Context&, Array<float> natural, ToeplitzOperator::Impl& impl) {
  impl.spectrum = std::move(natural);
}

void toeplitz_apply(Context& context, const ToeplitzOperator::Impl& impl, const ToeplitzJob& job) {
  const cudaStream_t stream = stream_of(context);
  const std::int64_t item = volume(impl.padded), image = volume(impl.n);
  const std::int64_t chunk =
      std::clamp<std::int64_t>(kWorkBytes / (item * static_cast<std::int64_t>(sizeof(cfloat))), 1, job.batch);
  Array<cfloat> grid = context.allocate<cfloat>({chunk, item});
  for (std::int64_t first = 0; first < job.batch; first += chunk) {
    const std::int64_t items = std::min(chunk, job.batch - first);
    const bool sense = job.maps != nullptr;
    const float2* maps = sense ? device_view(job.maps) + first * image : nullptr;
    pad_kernel<<<blocks_for(items * item), kThreads, 0, stream>>>(
        device_view(job.x) + (sense ? 0 : first * image), maps, items, impl.n, impl.padded, device_view(grid.data()));
    check_launch("toeplitz_apply");
    fft(context, grid.data(), items, impl.padded, impl.dims, Direction::forward);
    multiply_kernel<<<blocks_for(items * item), kThreads, 0, stream>>>(impl.spectrum.data(), items, item,
                                                                       device_view(grid.data()));
    check_launch("toeplitz_apply");
    fft(context, grid.data(), items, impl.padded, impl.dims, Direction::inverse);
    if (sense)
      combine_kernel<<<blocks_for(image), kThreads, 0, stream>>>(device_view(grid.data()), maps, items, impl.n,
                                                                 impl.padded, first > 0, device_view(job.y));
    else
      cut_kernel<<<blocks_for(items * image), kThreads, 0, stream>>>(device_view(grid.data()), items, impl.n,
                                                                     impl.padded, device_view(job.y) + first * image);
    check_launch("toeplitz_apply");
  }
}

}  // namespace echotrain::numerics::cuda
