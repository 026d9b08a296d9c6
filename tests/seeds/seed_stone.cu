#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "tests/seeds/seed_stone.h"

namespace echotrain::seed {
namespace {

using numerics::cuda::check;
using numerics::cuda::check_launch;
using numerics::cuda::stream_of;

constexpr float kTwoPi = 2 * std::numbers::pi_v<float>;

struct Point {
  float kx, ky, kz, re, im;
};
/// Pointers to the samples of a tile, or to the voxels.
struct PointArrays {
  const float *kx, *ky, *kz, *re, *im;
};
struct Positions {
  const float *x, *y, *z;
};
struct Sums {
  float *re, *im;
};

__constant__ Point tile_points[kLargestTile];

__device__ int voxel_of_thread() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

// Every kernel adds a tile of samples to the sums of one voxel per thread. The seed's versions without unrolling say so
// here, as today's compiler would unroll by itself.

/// volatile: voxels and sums must not stay in registers. Samples, alone among global data, are then cached by today's
/// GPUs, as in the kernels below; the seed's had no such cache.
__global__ void base_kernel(const volatile float* x, const volatile float* y, const volatile float* z,
                            const Point* points, int tile, int voxels, volatile float* re, volatile float* im) {
  const int n = voxel_of_thread();
  if (n >= voxels) return;
#pragma unroll 1
  for (int m = 0; m < tile; ++m) {
    const float angle = kTwoPi * (points[m].kx * x[n] + points[m].ky * y[n] + points[m].kz * z[n]);
    const float cosine = cosf(angle), sine = sinf(angle);
    re[n] = re[n] + (points[m].re * cosine - points[m].im * sine);
    im[n] = im[n] + (points[m].im * cosine + points[m].re * sine);
  }
}

__global__ void reg_alloc_kernel(Positions at, const Point* points, int tile, int voxels, Sums sums) {
  const int n = voxel_of_thread();
  if (n >= voxels) return;
  const float x = at.x[n], y = at.y[n], z = at.z[n];
  float re = sums.re[n], im = sums.im[n];
#pragma unroll 1
  for (int m = 0; m < tile; ++m) {
    const float angle = kTwoPi * (points[m].kx * x + points[m].ky * y + points[m].kz * z);
    const float cosine = cosf(angle), sine = sinf(angle);
    re += points[m].re * cosine - points[m].im * sine;
    im += points[m].im * cosine + points[m].re * sine;
  }
  sums.re[n] = re;
  sums.im[n] = im;
}

__global__ void layout_kernel(Positions at, PointArrays points, int tile, int voxels, Sums sums) {
  const int n = voxel_of_thread();
  if (n >= voxels) return;
  const float x = at.x[n], y = at.y[n], z = at.z[n];
  float re = sums.re[n], im = sums.im[n];
#pragma unroll 1
  for (int m = 0; m < tile; ++m) {
    const float angle = kTwoPi * (points.kx[m] * x + points.ky[m] * y + points.kz[m] * z);
    const float cosine = cosf(angle), sine = sinf(angle);
    re += points.re[m] * cosine - points.im[m] * sine;
    im += points.im[m] * cosine + points.re[m] * sine;
  }
  sums.re[n] = re;
  sums.im[n] = im;
}

/// Samples from tile_points. Fast: what nvcc -use_fast_math makes of sinf and cosf, and of nothing else here.
template <bool Fast, int Unroll>
__global__ void constant_kernel(Positions at, int tile, int voxels, Sums sums) {
  const int n = voxel_of_thread();
  if (n >= voxels) return;
  const float x = at.x[n], y = at.y[n], z = at.z[n];
  float re = sums.re[n], im = sums.im[n];
#pragma unroll Unroll
  for (int m = 0; m < tile; ++m) {
    const float angle = kTwoPi * (tile_points[m].kx * x + tile_points[m].ky * y + tile_points[m].kz * z);
    const float cosine = Fast ? __cosf(angle) : cosf(angle), sine = Fast ? __sinf(angle) : sinf(angle);
    re += tile_points[m].re * cosine - tile_points[m].im * sine;
    im += tile_points[m].im * cosine + tile_points[m].re * sine;
  }
  sums.re[n] = re;
  sums.im[n] = im;
}

/// Does the same as constant_kernel, with the samples of the tile as five arrays in the same constant memory: the
/// dashed lines of the seed's figure 8.
template <int Unroll>
__global__ void constant_arrays_kernel(Positions at, int tile, int voxels, Sums sums) {
  const int n = voxel_of_thread();
  if (n >= voxels) return;
  const float x = at.x[n], y = at.y[n], z = at.z[n];
  float re = sums.re[n], im = sums.im[n];
  const float* numbers = reinterpret_cast<const float*>(tile_points);
#pragma unroll Unroll
  for (int m = 0; m < tile; ++m) {
    const float kx = numbers[m], ky = numbers[tile + m], kz = numbers[2 * tile + m];
    const float mu_re = numbers[3 * tile + m], mu_im = numbers[4 * tile + m];
    const float angle = kTwoPi * (kx * x + ky * y + kz * z);
    const float cosine = cosf(angle), sine = sinf(angle);
    re += mu_re * cosine - mu_im * sine;
    im += mu_im * cosine + mu_re * sine;
  }
  sums.re[n] = re;
  sums.im[n] = im;
}

/// The teaching kit's: three arrays of k in constant memory, data in global memory.
__global__ void constant_k_kernel(Positions at, const float* mu_re, const float* mu_im, int tile, int voxels,
                                  Sums sums) {
  const int n = voxel_of_thread();
  if (n >= voxels) return;
  const float x = at.x[n], y = at.y[n], z = at.z[n];
  float re = sums.re[n], im = sums.im[n];
  const float* k = reinterpret_cast<const float*>(tile_points);
#pragma unroll 1
  for (int m = 0; m < tile; ++m) {
    const float angle = kTwoPi * (k[m] * x + k[tile + m] * y + k[2 * tile + m] * z);
    const float cosine = cosf(angle), sine = sinf(angle);
    re += mu_re[m] * cosine - mu_im[m] * sine;
    im += mu_im[m] * cosine + mu_re[m] * sine;
  }
  sums.re[n] = re;
  sums.im[n] = im;
}

/// The teaching kit's first kernel: a thread per sample, which adds to every voxel, atomically here.
__global__ void scatter_kernel(Positions at, PointArrays points, int samples, int voxels, Sums sums) {
  const int m = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (m >= samples) return;
  const float kx = points.kx[m], ky = points.ky[m], kz = points.kz[m], mu_re = points.re[m], mu_im = points.im[m];
#pragma unroll 1
  for (int n = 0; n < voxels; ++n) {
    const float angle = kTwoPi * (kx * at.x[n] + ky * at.y[n] + kz * at.z[n]);
    const float cosine = cosf(angle), sine = sinf(angle);
    atomicAdd(sums.re + n, mu_re * cosine - mu_im * sine);
    atomicAdd(sums.im + n, mu_im * cosine + mu_re * sine);
  }
}

using ConstantKernel = void (*)(Positions, int, int, Sums);

/// The kernel of `variant` with its loop unrolled so often.
template <int Unroll>
ConstantKernel constant_kernel_of(Variant variant) {
  if (variant == Variant::const_arrays) return constant_arrays_kernel<Unroll>;
  return variant == Variant::fast_trig ? constant_kernel<true, Unroll> : constant_kernel<false, Unroll>;
}

ConstantKernel constant_kernel_of(Variant variant, int unroll) {
  switch (unroll) {
    case 1:
      return constant_kernel_of<1>(variant);
    case 2:
      return constant_kernel_of<2>(variant);
    case 4:
      return constant_kernel_of<4>(variant);
    case 8:
      return constant_kernel_of<8>(variant);
    default:
      throw std::invalid_argument("unroll: 1, 2, 4 or 8");
  }
}

/// Enqueues a copy of the first `columns` of the arrays that begin at `from`, `stride` numbers apart, to constant
/// memory, where each has `tile` numbers.
void copy_arrays(const float* from, std::int64_t stride, int columns, int tile, cudaStream_t stream) {
  void* to = nullptr;
  check(cudaGetSymbolAddress(&to, tile_points), "finding constant memory");
  const std::size_t width = static_cast<std::size_t>(tile) * sizeof(float);
  check(cudaMemcpy2DAsync(to, width, from, static_cast<std::size_t>(stride) * sizeof(float), width,
                          static_cast<std::size_t>(columns), cudaMemcpyDeviceToDevice, stream),
        "copying arrays to constant memory");
}

}  // namespace

int gpu_count() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "counting GPUs");
  return count;
}

GpuFhd::GpuFhd(numerics::Context& context, const Samples<float>& samples, std::int64_t matrix, std::int64_t begin,
               std::int64_t end)
    : context_(context),
      voxels_(end - begin),
      padded_((samples.size() + kLargestTile - 1) / kLargestTile * kLargestTile) {
  auto positions = context.allocate_host<float>({3, voxels_});
  for (std::int64_t n = begin; n < end; ++n) {
    float* to = positions.data() + (n - begin);
    to[0] = static_cast<float>(n % matrix - matrix / 2);
    to[voxels_] = static_cast<float>(n / matrix % matrix - matrix / 2);
    to[2 * voxels_] = static_cast<float>(n / matrix / matrix - matrix / 2);
  }
  auto arrays = context.allocate_host<float>({5, padded_}), structs = context.allocate_host<float>({padded_, 5});
  const std::vector<float>* columns[] = {&samples.kx, &samples.ky, &samples.kz, &samples.re, &samples.im};
  for (std::int64_t c = 0; c < 5; ++c)
    for (std::int64_t m = 0; m < padded_; ++m) {
      const float value = m < samples.size() ? columns[c]->data()[m] : 0.0f;
      arrays.data()[c * padded_ + m] = value;
      structs.data()[m * 5 + c] = value;
    }
  positions_ = context.upload<float>(positions.cview());
  arrays_ = context.upload<float>(arrays.cview());
  structs_ = context.upload<float>(structs.cview());
  sums_ = context.allocate<float>({2, voxels_});
  context.synchronize();
}

void GpuFhd::run(Variant variant, const Settings& settings, std::int64_t samples) {
  const cudaStream_t stream = stream_of(context_);
  const int threads = settings.threads, tile = settings.tile, voxels = static_cast<int>(voxels_);
  if (tile < 1 || kLargestTile % tile != 0) throw std::invalid_argument("tile: a divisor of the largest one");
  const unsigned blocks = static_cast<unsigned>((voxels + threads - 1) / threads);
  const Positions at{positions_.data(), positions_.data() + voxels_, positions_.data() + 2 * voxels_};
  const Sums sums{sums_.data(), sums_.data() + voxels_};
  const Point* points = reinterpret_cast<const Point*>(structs_.data());
  const PointArrays all{arrays_.data(), arrays_.data() + padded_, arrays_.data() + 2 * padded_,
                        arrays_.data() + 3 * padded_, arrays_.data() + 4 * padded_};
  context_.clear<float>(sums_.view());
  const std::int64_t end = samples > 0 ? samples : padded_;
  if (variant == Variant::scatter) {
    const int count = static_cast<int>(end);
    scatter_kernel<<<static_cast<unsigned>((count + threads - 1) / threads), threads, 0, stream>>>(at, all, count,
                                                                                                   voxels, sums);
    check_launch("adding samples to all voxels");
    return;
  }
  for (std::int64_t first = 0; first < end; first += tile) {
    const float* k = arrays_.data() + first;
    if (variant == Variant::base) {
      base_kernel<<<blocks, threads, 0, stream>>>(at.x, at.y, at.z, points + first, tile, voxels, sums.re, sums.im);
    } else if (variant == Variant::reg_alloc) {
      reg_alloc_kernel<<<blocks, threads, 0, stream>>>(at, points + first, tile, voxels, sums);
    } else if (variant == Variant::layout) {
      layout_kernel<<<blocks, threads, 0, stream>>>(
          at, {k, k + padded_, k + 2 * padded_, k + 3 * padded_, k + 4 * padded_}, tile, voxels, sums);
    } else if (variant == Variant::const_k) {
      copy_arrays(k, padded_, 3, tile, stream);
      constant_k_kernel<<<blocks, threads, 0, stream>>>(at, all.re + first, all.im + first, tile, voxels, sums);
    } else if (variant == Variant::const_arrays) {
      copy_arrays(k, padded_, 5, tile, stream);
      constant_kernel_of(variant, settings.unroll)<<<blocks, threads, 0, stream>>>(at, tile, voxels, sums);
    } else {
      check(cudaMemcpyToSymbolAsync(tile_points, points + first, static_cast<std::size_t>(tile) * sizeof(Point), 0,
                                    cudaMemcpyDeviceToDevice, stream),
            "copying a tile to constant memory");
      constant_kernel_of(variant, settings.unroll)<<<blocks, threads, 0, stream>>>(at, tile, voxels, sums);
    }
    check_launch("adding a tile of samples");
  }
}

std::vector<numerics::cfloat> GpuFhd::image() {
  const auto host = context_.download<float>(sums_.cview());
  std::vector<numerics::cfloat> image(static_cast<std::size_t>(voxels_));
  for (std::int64_t n = 0; n < voxels_; ++n)
    image[static_cast<std::size_t>(n)] = {host.data()[n], host.data()[voxels_ + n]};
  return image;
}

}  // namespace echotrain::seed
