#include <algorithm>
#include <climits>

#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/reduce/reductions_cuda.cuh"
#include "gadgets/numerics/mri/coils/coil_maps_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::int64_t kSharedBytes = 48 * 1024;  // shared memory [bytes] that a block gets on every device

/// The value scaled, 0 if it is not finite.
__device__ float2 take(float2 value, float scale) {
  if (!isfinite(value.x) || !isfinite(value.y)) return make_float2(0.0f, 0.0f);
  return make_float2(value.x * scale, value.y * scale);
}

__device__ float2 start_value(int coil) {
  double sine, cosine;
  sincospi(2 * start_turns(coil), &sine, &cosine);
  return make_float2(static_cast<float>(cosine), static_cast<float>(sine));
}

/// *scale = the power of two that makes the largest value, of either sign, 1..2; 1 for zeros. extremes: [2]
__global__ void scale_kernel(const float* extremes, float* scale) {
  const float most = fmaxf(-extremes[0], extremes[1]);
  *scale = most > 0 ? ldexpf(1.0f, max(-126, min(126, -ilogbf(most)))) : 1.0f;
}

/// One block per element of the lower triangle of sum_v I(v) I(v)^H.
__global__ void covariance_kernel(const float2* images, std::int64_t voxels, const float* scale, double2* triangle) {
  int a = 0, b = static_cast<int>(blockIdx.x);
  while (b > a) b -= ++a;
  Sums<2> sum;  // real and imaginary part
  for (std::int64_t v = threadIdx.x; v < voxels; v += blockDim.x) {
    const float2 p = take(images[a * voxels + v], *scale), q = take(images[b * voxels + v], *scale);
    sum.of[0] += static_cast<double>(p.x) * q.x + static_cast<double>(p.y) * q.y;
    sum.of[1] += static_cast<double>(p.y) * q.x - static_cast<double>(p.x) * q.y;
  }
  sum = block_join(sum);
  if (threadIdx.x == 0) triangle[blockIdx.x] = make_double2(sum.of[0], sum.of[1]);
}

/// principal_component() by one block. x, y: [coils].
__global__ void virtual_coil_kernel(const double2* triangle, int coils, double2* x, double2* y, float2* reference) {
  __shared__ double norm;
  for (int a = threadIdx.x; a < coils; a += blockDim.x) {
    double sine, cosine;
    sincospi(2 * start_turns(a), &sine, &cosine);
    x[a] = make_double2(cosine / sqrt(static_cast<double>(coils)), sine / sqrt(static_cast<double>(coils)));
  }
  __syncthreads();
  for (int i = 0; i < kReferenceIterations; ++i) {
    for (int a = threadIdx.x; a < coils; a += blockDim.x) {
      double re = 0, im = 0;
      for (int b = 0; b < coils; ++b) {
        double2 m = b <= a ? triangle[triangle_index(a, b)] : triangle[triangle_index(b, a)];
        if (b > a) m.y = -m.y;
        re += m.x * x[b].x - m.y * x[b].y;
        im += m.x * x[b].y + m.y * x[b].x;
      }
      y[a] = make_double2(re, im);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      norm = 0;
      for (int a = 0; a < coils; ++a) norm += y[a].x * y[a].x + y[a].y * y[a].y;
    }
    __syncthreads();
    if (!(norm > 0)) break;
    for (int a = threadIdx.x; a < coils; a += blockDim.x) x[a] = make_double2(y[a].x / sqrt(norm), y[a].y / sqrt(norm));
    __syncthreads();
  }
  for (int a = threadIdx.x; a < coils; a += blockDim.x)
    reference[a] = make_float2(static_cast<float>(x[a].x), static_cast<float>(x[a].y));
}

/// Each thread's two vectors [coil], in shared memory.
struct Vectors {
  float2* x;
  float2* y;
  int coils;
  int stride;

  __device__ Vectors(float2* shared, int n)
      : x(shared + threadIdx.x), y(shared + n * blockDim.x + threadIdx.x), coils(n), stride(blockDim.x) {}
  __device__ float2& at_x(int c) { return x[c * stride]; }
  __device__ float2& at_y(int c) { return y[c * stride]; }
  /// x = y scaled to unit length, or 0 where y is 0; returns the length of y.
  __device__ float normalize() {
    float power = 0;
    for (int c = 0; c < coils; ++c) power += at_y(c).x * at_y(c).x + at_y(c).y * at_y(c).y;
    const float scale = power > 0 ? 1 / sqrtf(power) : 0.0f;
    for (int c = 0; c < coils; ++c) at_x(c) = make_float2(at_y(c).x * scale, at_y(c).y * scale);
    return power * scale;
  }
  /// Turns x so that sum_c conj(reference_c) x_c is positive, and stores it, or 0.
  __device__ void put(const float2* reference, bool keep, float2* to, std::int64_t to_stride) {
    float2 sum = make_float2(0.0f, 0.0f);
    for (int c = 0; c < coils; ++c) {
      const float2 part = conjugate(reference[c]) * at_x(c);
      sum = make_float2(sum.x + part.x, sum.y + part.y);
    }
    const float power = sum.x * sum.x + sum.y * sum.y, scale = power > 0 ? 1 / sqrtf(power) : 0.0f;
    const float2 turn = power > 0 ? make_float2(sum.x * scale, -sum.y * scale) : make_float2(1.0f, 0.0f);
    for (int c = 0; c < coils; ++c) to[c * to_stride] = keep ? at_x(c) * turn : make_float2(0.0f, 0.0f);
  }
};

struct Voxels {
  const float2* images;
  int coils;
  std::int64_t nz, ny, nx;
  std::int64_t before, after;
};

/// One voxel per thread. The covariance R = sum I(u) I(u)^H is never made: R x = sum I(u) (I(u)^H x).
__global__ void adaptive_kernel(Voxels w, const float* scale_of_images, const float2* reference, float2* maps,
                                float* power) {
  extern __shared__ float2 shared[];
  Vectors vectors(shared, w.coils);
  const float scale = *scale_of_images;
  const std::int64_t voxels = w.nz * w.ny * w.nx;
  ECHOTRAIN_GRID_STRIDE(v, voxels) {
    const std::int64_t x = v % w.nx, y = v / w.nx % w.ny, z = v / w.nx / w.ny;
    const std::int64_t x0 = max(0ll, static_cast<long long>(x - w.before)), x1 = min(w.nx - 1, x + w.after);
    const std::int64_t y0 = max(0ll, static_cast<long long>(y - w.before)), y1 = min(w.ny - 1, y + w.after);
    const std::int64_t z0 = max(0ll, static_cast<long long>(z - w.before)), z1 = min(w.nz - 1, z + w.after);
    float trace = 0, size = 0;
    for (int c = 0; c < w.coils; ++c) {
      vectors.at_x(c) = take(w.images[c * voxels + v], scale);
      size += fabsf(vectors.at_x(c).x) + fabsf(vectors.at_x(c).y);
      for (std::int64_t uz = z0; uz <= z1; ++uz)
        for (std::int64_t uy = y0; uy <= y1; ++uy)
          for (std::int64_t ux = x0; ux <= x1; ++ux) {
            const float2 i = take(w.images[c * voxels + (uz * w.ny + uy) * w.nx + ux], scale);
            trace += i.x * i.x + i.y * i.y;
          }
    }
    for (int c = 0; c < w.coils; ++c) {
      const float2 own = vectors.at_x(c);
      vectors.at_x(c) = size > 0 ? make_float2(own.x / size, own.y / size) : start_value(c);
    }
    for (int i = 0; i < kAdaptiveIterations; ++i) {
      for (int c = 0; c < w.coils; ++c) vectors.at_y(c) = make_float2(0.0f, 0.0f);
      for (std::int64_t uz = z0; uz <= z1; ++uz)
        for (std::int64_t uy = y0; uy <= y1; ++uy)
          for (std::int64_t ux = x0; ux <= x1; ++ux) {
            const float2* image = w.images + (uz * w.ny + uy) * w.nx + ux;
            float2 dot = make_float2(0.0f, 0.0f);
            for (int c = 0; c < w.coils; ++c) {
              const float2 part = conjugate(take(image[c * voxels], scale)) * vectors.at_x(c);
              dot = make_float2(dot.x + part.x, dot.y + part.y);
            }
            dot = trace > 0 ? make_float2(dot.x / trace, dot.y / trace) : make_float2(0.0f, 0.0f);
            for (int c = 0; c < w.coils; ++c) {
              const float2 part = take(image[c * voxels], scale) * dot;
              vectors.at_y(c) = make_float2(vectors.at_y(c).x + part.x, vectors.at_y(c).y + part.y);
            }
          }
      vectors.normalize();
    }
    vectors.put(reference, trace > 0, maps + v, voxels);
    if (power != nullptr) power[v] = trace / static_cast<float>((z1 - z0 + 1) * (y1 - y0 + 1) * (x1 - x0 + 1));
  }
}

__global__ void mask_kernel(const float* power, const float* most, float share, int coils, std::int64_t voxels,
                            float2* maps) {
  ECHOTRAIN_GRID_STRIDE(v, voxels)
  if (power[v] < share * *most)
    for (int c = 0; c < coils; ++c) maps[c * voxels + v] = make_float2(0.0f, 0.0f);
}

struct Matrices {
  const float2* elements;
  int coils;
  std::int64_t voxels;
  const float2* start;
  const float2* reference;
  float crop;
  float2* maps;
  std::int64_t stride;
};

/// One thread per row of the matrix, and kRows threads of a warp per voxel, for up to kRows coils.
template <int kRows>
__global__ void __launch_bounds__(kThreads) eigen_rows_kernel(Matrices w) {
  const int a = threadIdx.x % kRows;
  const std::int64_t v = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kRows;
  const bool inside = v < w.voxels && a < w.coils;
  const auto sum_of_rows = [](float value) {
    for (int offset = kRows / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset, kRows);
    return value;
  };
  float2 row[kRows];
#pragma unroll
  for (int b = 0; b < kRows; ++b) {
    row[b] = make_float2(0.0f, 0.0f);
    if (!inside || b >= w.coils) continue;
    const float2 m = take(w.elements[(b <= a ? triangle_index(a, b) : triangle_index(b, a)) * w.voxels + v], 1.0f);
    row[b] = b <= a ? m : conjugate(m);
  }
  float2 x = inside ? w.start[a] : make_float2(0.0f, 0.0f), turn = make_float2(0.0f, 0.0f);
  float diagonal = 0;
#pragma unroll
  for (int b = 0; b < kRows; ++b)
    if (b == a) diagonal = row[b].x;
  const float trace = sum_of_rows(diagonal), factor = trace > 0 ? 1 / trace : 0.0f;
#pragma unroll
  for (int b = 0; b < kRows; ++b) row[b] = factor * row[b];
  float value = 0;
  for (int i = 0; i < kEspiritIterations; ++i) {
    float2 y = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int b = 0; b < kRows; ++b) {
      const float re = __shfl_sync(0xffffffffu, x.x, b, kRows), im = __shfl_sync(0xffffffffu, x.y, b, kRows);
      y = y + row[b] * make_float2(re, im);
    }
    const float power = sum_of_rows(y.x * y.x + y.y * y.y), scale = power > 0 ? 1 / sqrtf(power) : 0.0f;
    x = scale * y;
    value = power * scale * trace;
  }
  if (inside) turn = conjugate(w.reference[a]) * x;
  turn = make_float2(sum_of_rows(turn.x), sum_of_rows(turn.y));
  const float power = turn.x * turn.x + turn.y * turn.y, scale = power > 0 ? 1 / sqrtf(power) : 0.0f;
  turn = power > 0 ? make_float2(turn.x * scale, -turn.y * scale) : make_float2(1.0f, 0.0f);
  if (inside) w.maps[a * w.stride + v] = trace > 0 && value >= w.crop ? x * turn : make_float2(0.0f, 0.0f);
}

template <int kRows>
void find_by_rows(const Matrices& w, cudaStream_t stream) {
  constexpr std::int64_t kVoxels = kThreads / kRows;
  eigen_rows_kernel<kRows><<<static_cast<unsigned>((w.voxels + kVoxels - 1) / kVoxels), kThreads, 0, stream>>>(w);
}

/// One voxel per thread.
__global__ void eigen_kernel(Matrices w) {
  extern __shared__ float2 shared[];
  Vectors vectors(shared, w.coils);
  ECHOTRAIN_GRID_STRIDE(v, w.voxels) {
    const auto element = [&](int a, int b) { return take(w.elements[triangle_index(a, b) * w.voxels + v], 1.0f); };
    float trace = 0;
    for (int c = 0; c < w.coils; ++c) {
      vectors.at_x(c) = w.start[c];
      trace += element(c, c).x;
    }
    const float factor = trace > 0 ? 1 / trace : 0.0f;
    float value = 0;
    for (int i = 0; i < kEspiritIterations; ++i) {
      for (int c = 0; c < w.coils; ++c) vectors.at_y(c) = make_float2(0.0f, 0.0f);
      for (int a = 0; a < w.coils; ++a)
        for (int b = 0; b <= a; ++b) {
          float2 m = element(a, b);
          m = make_float2(m.x * factor, m.y * factor);
          const float2 down = m * vectors.at_x(b);
          vectors.at_y(a) = make_float2(vectors.at_y(a).x + down.x, vectors.at_y(a).y + down.y);
          if (b == a) continue;
          const float2 up = conjugate(m) * vectors.at_x(a);
          vectors.at_y(b) = make_float2(vectors.at_y(b).x + up.x, vectors.at_y(b).y + up.y);
        }
      value = vectors.normalize() * trace;
    }
    vectors.put(w.reference, trace > 0 && value >= w.crop, w.maps + v, w.stride);
  }
}

/// A launch whose threads keep two vectors each in shared memory.
struct Launch {
  unsigned blocks, threads;
  std::size_t shared;

  Launch(const char* what, std::int64_t coils, std::int64_t voxels) {
    const std::int64_t per_thread = 2 * coils * static_cast<std::int64_t>(sizeof(float2));
    if (per_thread > kSharedBytes) throw std::invalid_argument(std::string(what) + ": too many coils for CUDA");
    std::int64_t most = std::min<std::int64_t>(128, kSharedBytes / per_thread);
    if (most >= 32) most -= most % 32;
    threads = static_cast<unsigned>(most);
    blocks = static_cast<unsigned>(std::min<std::int64_t>((voxels + most - 1) / most, INT_MAX));
    shared = static_cast<std::size_t>(per_thread * most);
  }
};

}  // namespace

Array<float> unit_scale(Context& context, DeviceView<const cfloat> values) {
  auto scale = context.allocate<float>({1}), found = context.allocate<float>({2});
  cuda::extremes(context, DeviceView<const float>(reinterpret_cast<const float*>(values.data()), {2 * values.size()}),
                 found.view());
  scale_kernel<<<1, 1, 0, stream_of(context)>>>(found.data(), scale.data());
  check_launch("unit_scale");
  return scale;
}

Array<cfloat> virtual_coil(Context& context, DeviceView<const cfloat> values, const float* scale) {
  const std::int64_t coils = values.shape()[0], pairs = triangle_size(coils);
  auto triangle = context.allocate<cdouble>({pairs}), vectors = context.allocate<cdouble>({2, coils});
  auto reference = context.allocate<cfloat>({coils});
  auto* const triangle_there = reinterpret_cast<double2*>(triangle.data());
  auto* const vectors_there = reinterpret_cast<double2*>(vectors.data());
  const cudaStream_t stream = stream_of(context);
  covariance_kernel<<<static_cast<unsigned>(pairs), kThreads, 0, stream>>>(device_view(values.data()),
                                                                           values.shape()[1], scale, triangle_there);
  virtual_coil_kernel<<<1, kThreads, 0, stream>>>(triangle_there, static_cast<int>(coils), vectors_there,
                                                  vectors_there + coils, device_view(reference.data()));
  check_launch("virtual_coil");
  return reference;
}

void adaptive_maps(Context& context, const AdaptiveMaps& work) {
  const std::int64_t voxels = volume(work.n);
  const int coils = static_cast<int>(work.coils);
  const cudaStream_t stream = stream_of(context);
  const Launch launch("adaptive_maps", work.coils, voxels);
  const DeviceView<const cfloat> values(work.images, {work.coils, voxels});
  const Array<float> scale = unit_scale(context, values);
  const Array<cfloat> reference = virtual_coil(context, values, scale.data());
  Array<float> power;
  if (work.threshold > 0) power = context.allocate<float>({voxels});
  const float2* images = device_view(work.images);
  float2* maps = device_view(work.maps);
  const Voxels where{images, coils, work.n[0], work.n[1], work.n[2], work.before, work.after};
  adaptive_kernel<<<launch.blocks, launch.threads, launch.shared, stream>>>(
      where, scale.data(), device_view(reference.data()), maps, power.data());
  check_launch("adaptive_maps");
  if (work.threshold <= 0) return;
  auto found = context.allocate<float>({2});
  cuda::extremes(context, power.cview(), found.view());
  mask_kernel<<<blocks_for(voxels), kThreads, 0, stream>>>(power.data(), found.data() + 1,
                                                           work.threshold * work.threshold, coils, voxels, maps);
  check_launch("adaptive_maps");
}

void eigen_maps(Context& context, const EigenMaps& work) {
  const Launch launch("espirit_maps", work.coils, work.voxels);
  const Matrices matrices{device_view(work.matrices),
                          static_cast<int>(work.coils),
                          work.voxels,
                          device_view(work.start),
                          device_view(work.reference),
                          work.crop,
                          device_view(work.maps),
                          work.stride};
  const cudaStream_t stream = stream_of(context);
  if (work.coils <= 8)
    find_by_rows<8>(matrices, stream);
  else if (work.coils <= 16)
    find_by_rows<16>(matrices, stream);
  else if (work.coils <= 32)
    find_by_rows<32>(matrices, stream);
  else
    eigen_kernel<<<launch.blocks, launch.threads, launch.shared, stream>>>(matrices);
  check_launch("eigen_maps");
}

}  // namespace echotrain::numerics::cuda
