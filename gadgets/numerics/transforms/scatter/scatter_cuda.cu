// Scattering of samples to a grid of 64-bit integers: additions in fixed point are exact, so their order does not
// matter.
#include <cfloat>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/transforms/nufft/nufft_window_cuda.cuh"
#include "gadgets/numerics/transforms/scatter/scatter_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kWarp = 32, kWarpsOfBlock = 8;
constexpr int kPointsOfBlock = 32, kComponentsAtOnce = 64;  // points and components that a block of take_kernel works
                                                            // on

/// The grid in fixed point, zero between frames, and the largest component of the samples as its bits.
struct FixedGrid {
  Windows windows{};
  Array<long long> sums;  // [grid..., component]
  Array<unsigned> largest;
};

/// 2^e, where e makes the sum of `count` numbers of at most `largest` fit 62 bits. `headroom`: ceil(log2(count)).
__device__ float fixed_scale(float largest, int headroom) {
  return ldexpf(1.0f, max(-126, min(126, 61 - headroom - ilogbf(largest))));
}
/// True if the samples fit fixed point; if not, one is not finite, or all are zero.
__device__ bool is_usable(float largest) { return largest > 0 && largest <= FLT_MAX; }

/// *largest = the bits of the largest component. Bits of floats >= 0 are ordered as the floats are; those of NaN are
/// the largest. A sample of weight 0 or without a place takes no part.
__global__ void largest_kernel(ScatterJob job, int components, unsigned* largest) {
  __shared__ unsigned of_block;
  if (threadIdx.x == 0) of_block = 0;
  __syncthreads();
  unsigned most = 0;
  const float* const values = reinterpret_cast<const float*>(job.samples);
  ECHOTRAIN_GRID_STRIDE(i, job.count * components) {
    const std::int64_t s = i / components;
    const float w = job.weights != nullptr ? job.weights[s] : 1.0f;
    if (w == 0 || !isfinite(job.coordinates[2 * s]) || !isfinite(job.coordinates[2 * s + 1])) continue;
    most = max(most, __float_as_uint(fabsf(values != nullptr ? w * values[i] : w)));
  }
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) most = max(most, __shfl_xor_sync(~0u, most, lanes));
  if (threadIdx.x % kWarp == 0) atomicMax(&of_block, most);
  __syncthreads();
  if (threadIdx.x == 0 && of_block > 0) atomicMax(largest, of_block);
}

/// The start of a sample's footprint on an axis.
struct Start {
  std::int32_t first;
  float shift;  // as in Footprint
};
__device__ Start start_of(double turns, std::int32_t grid, std::int32_t width) {
  const double u = (turns - floor(turns)) * grid, edge = u - width / 2.0, start = ceil(edge);
  auto first = static_cast<std::int32_t>(start);
  if (first < 0) first += grid;
  if (first >= grid) first -= grid;
  return {first, static_cast<float>(start - edge)};
}

/// A warp per sample. Its lanes share components, which lie side by side, and where these are few also points of the
/// footprint. Lanes 0 .. 7 hold the weights along x, 8 .. 15 those along y.
__global__ void __launch_bounds__(kWarp* kWarpsOfBlock)
    scatter_kernel(Tiling t, Windows windows, ScatterJob job, int components, int headroom, const unsigned* largest,
                   long long* sums) {
  const std::int64_t s = static_cast<std::int64_t>(blockIdx.x) * kWarpsOfBlock + threadIdx.y;
  const float most = __uint_as_float(*largest);
  if (s >= job.count || !is_usable(most)) return;
  const double kx = job.coordinates[2 * s], ky = job.coordinates[2 * s + 1];
  const float density = job.weights != nullptr ? job.weights[s] : 1.0f;
  if (density == 0 || !isfinite(kx) || !isfinite(ky)) return;
  const int lane = threadIdx.x, width = t.width, points = width * width;
  const Start x = start_of(kx, t.grid[2], width), y = start_of(ky, t.grid[1], width);
  const float mine =
      window_at<>(windows.axis[lane < 8 ? 2 : 1], width, static_cast<float>(lane % 8), lane < 8 ? x.shift : y.shift);
  const float scale = fixed_scale(most, headroom);
  const float* const values = reinterpret_cast<const float*>(job.samples) + s * components;
  const int together = min(components, kWarp), side = kWarp / together;  // points handled at once
  const int of_lane = lane / together;
  for (int first = 0; first < components; first += kWarp) {
    const int component = first + lane % together;
    const bool active = of_lane < side && component < components;
    const float value = !active ? 0.0f : job.samples != nullptr ? density * values[component] : density;
    for (int begin = 0; begin < points; begin += side) {
      const int p = begin + of_lane, i = p % width, j = p / width;
      const float wx = __shfl_sync(~0u, mine, i), wy = __shfl_sync(~0u, mine, 8 + j);
      if (!active || p >= points) continue;
      std::int32_t gx = x.first + i, gy = y.first + j;
      if (gx >= t.grid[2]) gx -= t.grid[2];
      if (gy >= t.grid[1]) gy -= t.grid[1];
      const long long fixed = __float2ll_rn(value * (wx * wy) * scale);
      const std::int64_t at = (static_cast<std::int64_t>(gy) * t.grid[2] + gx) * components + component;
      atomicAdd(reinterpret_cast<unsigned long long*>(sums + at), static_cast<unsigned long long>(fixed));
    }
  }
}

/// A sum in fixed point as fp32; NaN where a sample was not finite.
__device__ float from_fixed(long long sum, float most, float inverse) {
  return is_usable(most) ? __ll2float_rn(sum) * inverse : most;
}

/// grid [channel, point] = sums [point, component], which become 0. A block takes kPointsOfBlock points.
__global__ void take_kernel(std::int64_t points, int components, int headroom, const unsigned* largest, long long* sums,
                            float2* grid) {
  __shared__ float tile[kPointsOfBlock][kComponentsAtOnce + 1];
  const float most = __uint_as_float(*largest), inverse = is_usable(most) ? 1 / fixed_scale(most, headroom) : 0.0f;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kPointsOfBlock;
  for (int c = 0; c < components; c += kComponentsAtOnce) {
    const int n = min(kComponentsAtOnce, components - c);
    for (int i = threadIdx.x; i < kPointsOfBlock * n; i += kThreads) {
      const int point = i / n, k = i % n;
      if (first + point >= points) break;
      long long& sum = sums[(first + point) * components + c + k];
      tile[point][k] = from_fixed(sum, most, inverse);
      sum = 0;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kPointsOfBlock * (n / 2); i += kThreads) {
      const int point = i % kPointsOfBlock, channel = i / kPointsOfBlock;
      if (first + point < points)
        grid[(c / 2 + channel) * points + first + point] =
            make_float2(tile[point][2 * channel], tile[point][2 * channel + 1]);
    }
    __syncthreads();
  }
}

/// take_kernel for real numbers.
__global__ void take_real_kernel(std::int64_t points, int headroom, const unsigned* largest, long long* sums,
                                 float2* grid) {
  const float most = __uint_as_float(*largest), inverse = is_usable(most) ? 1 / fixed_scale(most, headroom) : 0.0f;
  ECHOTRAIN_GRID_STRIDE(i, points) {
    grid[i] = make_float2(from_fixed(sums[i], most, inverse), 0.0f);
    sums[i] = 0;
  }
}

/// The element of the grid that holds lag `lag`.
__device__ std::int64_t wrapped(std::int64_t lag, std::int64_t extent) { return lag < 0 ? lag + extent : lag; }

__global__ void images_kernel(Tiling t, const float* factors, std::int64_t channels, const float2* grid,
                              float2* image) {
  const std::int64_t ny = t.image[1], nx = t.image[2];
  const float *fy = factors, *fx = factors + ny;
  ECHOTRAIN_GRID_STRIDE(i, channels * ny * nx) {
    const std::int64_t x = i % nx, y = i / nx % ny, c = i / (nx * ny);
    const float2 v =
        grid[(c * t.grid[1] + wrapped(y - ny / 2, t.grid[1])) * t.grid[2] + wrapped(x - nx / 2, t.grid[2])];
    const float f = fy[y] * fx[x];
    image[i] = make_float2(f * v.x, f * v.y);
  }
}

/// One thread per element of `to`.
__global__ void lags_kernel(Tiling t, const float* factors, const float2* grid, Extents padded, float2* to) {
  const std::int64_t ny = t.image[1] / 2, nx = t.image[2] / 2;
  const float *fy = factors, *fx = factors + 2 * ny;
  ECHOTRAIN_GRID_STRIDE(i, padded[1] * padded[2]) {
    const std::int64_t ay = i / padded[2], ax = i % padded[2];
    const std::int64_t y = ay < ny ? ay : ay - padded[1], x = ax < nx ? ax : ax - padded[2];
    float2 value = make_float2(0.0f, 0.0f);
    if (y > -ny && x > -nx) {
      const float2 v = grid[wrapped(y, t.grid[1]) * t.grid[2] + wrapped(x, t.grid[2])];
      const float f = fy[y + ny] * fx[x + nx];
      value = make_float2(f * v.x, f * v.y);
    }
    to[i] = value;
  }
}

int headroom_of(std::int64_t count) {
  int bits = 0;
  while ((std::int64_t{1} << bits) < count) ++bits;
  return bits;
}

void transform(Context& context, ScatterNufft::Impl& impl, std::int64_t channels) {
  fft(context, impl.on_grid.data(), channels, impl.grid_extents(), 2, Direction::inverse);
}

}  // namespace

void scatter_prepare(Context& context, ScatterNufft::Impl& impl) {
  auto state = std::make_shared<FixedGrid>();
  const Tiling& t = impl.tiling;
  for (int a = 1; a < 3; ++a) {
    const KaiserBessel window(t.width, static_cast<double>(t.grid[a]) / t.image[a]);
    const std::vector<double> coefficients = window.polynomial(WindowPolynomial::kError);
    if (coefficients.size() > static_cast<std::size_t>(WindowPolynomial::kMostTerms))
      throw std::invalid_argument("scatter: the window needs too many coefficients");
    for (std::size_t k = 0; k < coefficients.size(); ++k)
      state->windows.axis[a].coefficients[k] = static_cast<float>(coefficients[k]);
  }
  // The grid holds complex sums for samples; for lags, of one channel, only half of it is used.
  state->sums = context.zeros<long long>({volume(impl.grid_extents()), 2 * impl.channels});
  state->largest = context.zeros<unsigned>({1});
  impl.state = std::move(state);
}

void scatter(Context& context, ScatterNufft::Impl& impl, const ScatterJob& job) {
  auto& fixed = *static_cast<FixedGrid*>(impl.state.get());
  const cudaStream_t stream = stream_of(context);
  const std::int64_t points = volume(impl.grid_extents());
  const int components = job.samples != nullptr ? static_cast<int>(2 * job.channels) : 1,
            headroom = headroom_of(job.count);
  context.clear(fixed.largest.view());
  if (job.count > 0) {
    largest_kernel<<<blocks_for(job.count * components / 4), kThreads, 0, stream>>>(job, components,
                                                                                    fixed.largest.data());
    check_launch("scatter");
    scatter_kernel<<<static_cast<unsigned>((job.count + kWarpsOfBlock - 1) / kWarpsOfBlock), dim3(kWarp, kWarpsOfBlock),
                     0, stream>>>(impl.tiling, fixed.windows, job, components, headroom, fixed.largest.data(),
                                  fixed.sums.data());
    check_launch("scatter");
  }
  float2* const grid = device_view(impl.on_grid.data());
  if (components == 1)
    take_real_kernel<<<blocks_for(points), kThreads, 0, stream>>>(points, headroom, fixed.largest.data(),
                                                                  fixed.sums.data(), grid);
  else
    take_kernel<<<static_cast<unsigned>((points + kPointsOfBlock - 1) / kPointsOfBlock), kThreads, 0, stream>>>(
        points, components, headroom, fixed.largest.data(), fixed.sums.data(), grid);
  check_launch("scatter");
}

void scattered_images(Context& context, ScatterNufft::Impl& impl, std::int64_t channels, cfloat* image) {
  transform(context, impl, channels);
  images_kernel<<<blocks_for(channels * volume(last_axes(impl.image, 2))), kThreads, 0, stream_of(context)>>>(
      impl.tiling, impl.deapodization.data(), channels, device_view(impl.on_grid.data()), device_view(image));
  check_launch("scattered_images");
}

void scattered_lags(Context& context, ScatterNufft::Impl& impl, const Extents& padded, cfloat* to) {
  transform(context, impl, 1);
  lags_kernel<<<blocks_for(volume(padded)), kThreads, 0, stream_of(context)>>>(
      impl.tiling, impl.deapodization.data(), device_view(impl.on_grid.data()), padded, device_view(to));
  check_launch("scattered_lags");
}

}  // namespace echotrain::numerics::cuda
