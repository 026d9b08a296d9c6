#include <algorithm>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/mri/images/non_local_means_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// The Pace of this operation, for Context::cache().
struct DenoisingPace : LaunchThrottle {};

__device__ long long clamped(long long i, long long n) { return min(max(i, 0ll), n - 1); }

/// Voxels [first, end) of the image.
template <int parts>
__global__ void __launch_bounds__(kThreads)
    non_local_means_kernel(const float* image, LocalMeans how, std::int64_t first, std::int64_t end, float* to) {
  const long long nz = how.n[0], ny = how.n[1], nx = how.n[2];
  const std::int64_t v = first + static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (v >= end) return;
  const long long x = v % nx, y = v / nx % ny, z = v / nx / ny;
  const auto voxel = [&](long long k, long long j, long long i) {
    return image + ((clamped(k, nz) * ny + clamped(j, ny)) * nx + clamped(i, nx)) * parts;
  };
  float weights = 0, sums[2] = {0, 0};
  for (long long oz = max(z - how.search[0], 0ll); oz <= min(z + how.search[0], nz - 1); ++oz)
    for (long long oy = max(y - how.search[1], 0ll); oy <= min(y + how.search[1], ny - 1); ++oy)
      for (long long ox = max(x - how.search[2], 0ll); ox <= min(x + how.search[2], nx - 1); ++ox) {
        float sum = 0;
        for (int pz = -how.patch[0]; pz <= how.patch[0]; ++pz)
          for (int py = -how.patch[1]; py <= how.patch[1]; ++py)
            for (int px = -how.patch[2]; px <= how.patch[2]; ++px) {
              const float *here = voxel(z + pz, y + py, x + px), *there = voxel(oz + pz, oy + py, ox + px);
              for (int part = 0; part < parts; ++part) {
                const float d = here[part] - there[part];
                sum += d * d;
              }
            }
        const float weight = how.weight(sum);
        if (weight == 0) continue;  // the neighbour may be infinite
        const float* other = voxel(oz, oy, ox);
        weights += weight;
        for (int part = 0; part < parts; ++part)
          sums[part] += weight * (how.bias >= 0 ? other[part] * other[part] : other[part]);
      }
  for (int part = 0; part < parts; ++part) {
    const float mean = sums[part] / weights;
    to[v * parts + part] = weights > 0 ? (how.bias >= 0 ? how.without_bias(mean) : mean) : image[v * parts + part];
  }
}

__global__ void details_kernel(const float* image, long long ny, long long nx, long long parts, std::int64_t count,
                               float* to) {
  ECHOTRAIN_GRID_STRIDE(i, count) {
    const long long part = i % parts, x = i / parts % (nx / 2), row = i / parts / (nx / 2);
    const long long z = row / (ny / 2), y = row % (ny / 2);
    to[i] = detail_of(image + ((z * ny + 2 * y) * nx + 2 * x) * parts + part, parts, nx * parts);
  }
}

}  // namespace

void non_local_means(Context& context, const float* image, const LocalMeans& how, float* to) {
  constexpr std::int64_t kMostWork = std::int64_t{1} << 37;  // differences of a launch: it cannot be stopped
  std::int64_t each = 1;
  for (int a = 0; a < 3; ++a) each *= (2 * how.patch[a] + 1) * (2 * how.search[a] + 1);
  const std::int64_t all = volume(how.n), step = std::max<std::int64_t>(kMostWork / each, 4096);
  for (std::int64_t first = 0; first < all; first += step) {
    const std::int64_t end = std::min(all, first + step);
    const auto blocks = static_cast<unsigned>((end - first + kThreads - 1) / kThreads);
    if (how.parts == 1)
      non_local_means_kernel<1><<<blocks, kThreads, 0, stream_of(context)>>>(image, how, first, end, to);
    else
      non_local_means_kernel<2><<<blocks, kThreads, 0, stream_of(context)>>>(image, how, first, end, to);
    check_launch("non_local_means");
    if (end < all) context.cache<DenoisingPace>().step(context);
  }
}

void details(Context& context, const float* image, const Extents& n, int parts, float* to) {
  const std::int64_t count = n[0] * (n[1] / 2) * (n[2] / 2) * parts;
  details_kernel<<<blocks_for(count), kThreads, 0, stream_of(context)>>>(image, n[1], n[2], parts, count, to);
  check_launch("noise_deviation");
}

}  // namespace echotrain::numerics::cuda
