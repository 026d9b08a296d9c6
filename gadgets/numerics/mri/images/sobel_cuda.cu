#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/reduce/reductions_ops.h"
#include "gadgets/numerics/mri/images/sobel_ops.h"

namespace echotrain::numerics::cuda {
namespace {

struct Image {
  const float* data;
  long long nz, ny, nx;
  int axes;

  __device__ float at(long long z, long long y, long long x) const {
    z = min(max(z, 0ll), nz - 1);
    y = min(max(y, 0ll), ny - 1);
    x = min(max(x, 0ll), nx - 1);
    return data[(z * ny + y) * nx + x];
  }
};

/// The weight of Sobel's operator at offset d = -1, 0, 1 along an axis across.
__device__ float smooth(int d) { return d == 0 ? 0.5f : 0.25f; }

/// Sums over a line along x of a 2D image, or over three lines of a plane of a volume. They are combined with those
/// before and after them along the remaining axis.
struct Slab {
  float along_x, along_y, smooth;
};

template <int axes>
__device__ Slab slab_of(const Image& image, int at, int y, int x) {
  const int nx = static_cast<int>(image.nx), ny = static_cast<int>(image.ny), nz = static_cast<int>(image.nz);
  const auto line = [&](long long z, int row) {
    const float* from = image.data + (z * ny + min(max(row, 0), ny - 1)) * nx;
    const float left = from[max(x - 1, 0)], middle = from[x], right = from[min(x + 1, nx - 1)];
    return make_float2(0.5f * (right - left), 0.25f * (left + right) + 0.5f * middle);
  };
  if (axes == 2) {
    const float2 only = line(0, at);
    return {only.x, 0, only.y};
  }
  const long long z = min(max(at, 0), nz - 1);
  const float2 before = line(z, y - 1), here = line(z, y), after = line(z, y + 1);
  return {0.25f * (before.x + after.x) + 0.5f * here.x, 0.5f * (after.y - before.y),
          0.25f * (before.y + after.y) + 0.5f * here.y};
}

constexpr int kRun = 8;  // voxels of a thread, along the slowest axis
constexpr unsigned kWidth = 32, kHeight = kThreads / kWidth;

/// One thread per x, times y in a volume or runs of a plane; blocks along z take runs of a volume.
template <int axes>
__global__ void __launch_bounds__(kThreads) sobel_kernel(Image image, float* magnitude, float* components) {
  const int x = static_cast<int>(blockIdx.x * kWidth + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y * kHeight + threadIdx.y);
  const int y = axes == 2 ? 0 : row, first = (axes == 2 ? row : static_cast<int>(blockIdx.z)) * kRun;
  const int end = static_cast<int>(axes == 2 ? image.ny : image.nz);
  if (x >= image.nx || y >= image.ny || first >= end) return;
  Slab slabs[kRun + 2];  // slabs beyond the end repeat the last one
#pragma unroll
  for (int i = 0; i < kRun + 2; ++i) slabs[i] = slab_of<axes>(image, first + i - 1, y, x);
  const long long step = axes == 2 ? image.nx : image.ny * image.nx, voxels = image.nz * image.ny * image.nx;
  const long long v0 = first * step + y * image.nx + x;
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    if (first + i >= end) break;
    const Slab &before = slabs[i], &here = slabs[i + 1], &after = slabs[i + 2];
    const long long v = v0 + i * step;
    const float across = 0.25f * (before.along_x + after.along_x) + 0.5f * here.along_x;
    const float between = 0.25f * (before.along_y + after.along_y) + 0.5f * here.along_y;
    const float along = 0.5f * (after.smooth - before.smooth);
    const float squares = across * across + along * along;
    magnitude[v] = sqrtf(axes == 2 ? squares : squares + between * between);
    if (components == nullptr) continue;
    components[v] = across;
    components[voxels + v] = axes == 2 ? along : between;
    if (axes == 3) components[2 * voxels + v] = along;
  }
}

/// True if voxel i % voxels has a neighbour along axis i / voxels.
__device__ bool is_edge(const Image& image, std::int64_t i) {
  const std::int64_t voxels = image.nz * image.ny * image.nx, axis = i / voxels, v = i % voxels;
  if (axis == 0) return v % image.nx + 1 < image.nx;
  if (axis == 1) return v / image.nx % image.ny + 1 < image.ny;
  return v / image.nx / image.ny + 1 < image.nz;
}

/// sizes[i] = |difference| of each edge, 0 where it is not finite; NaN where there is no edge.
__global__ void differences_kernel(Image image, float* sizes) {
  const std::int64_t voxels = image.nz * image.ny * image.nx;
  ECHOTRAIN_GRID_STRIDE(i, image.axes * voxels) {
    const int axis = static_cast<int>(i / voxels);
    const std::int64_t v = i % voxels, x = v % image.nx, y = v / image.nx % image.ny, z = v / image.nx / image.ny;
    float sum = 0;
    const bool edge = is_edge(image, i);
    if (edge) {
      const int ex = axis == 0, ey = axis == 1, ez = axis == 2;
      const int reach_x = 1 - ex, reach_y = 1 - ey, reach_z = image.axes == 3 ? 1 - ez : 0;
      for (int dz = -reach_z; dz <= reach_z; ++dz)
        for (int dy = -reach_y; dy <= reach_y; ++dy)
          for (int dx = -reach_x; dx <= reach_x; ++dx) {
            const float weight =
                (reach_z ? smooth(dz) : 1.0f) * (reach_y ? smooth(dy) : 1.0f) * (reach_x ? smooth(dx) : 1.0f);
            // The neighbour is inside; the border cuts only the other axes.
            const long long bz = min(max(static_cast<long long>(z + dz), 0ll), image.nz - 1),
                            by = min(max(static_cast<long long>(y + dy), 0ll), image.ny - 1),
                            bx = min(max(static_cast<long long>(x + dx), 0ll), image.nx - 1);
            sum += weight * (image.at(bz + ez, by + ey, bx + ex) - image.at(bz, by, bx));
          }
    }
    sizes[i] = !edge ? nanf("") : isfinite(sum) ? fabsf(sum) : 0.0f;
  }
}

/// found: the smallest size, the largest, and the quantile.
__global__ void weights_kernel(Image image, float strength, const float* found, float* weights) {
  const float sigma = fmaxf(strength * found[2], found[1] / kMostRatio);
  ECHOTRAIN_GRID_STRIDE(i, image.axes * image.nz * image.ny * image.nx) {
    const float ratio = sigma > 0 ? weights[i] / sigma : 0.0f;
    weights[i] = is_edge(image, i) ? 1 / (1 + ratio * ratio) : 0.0f;
  }
}

__global__ void gradient_image_kernel(const float* components, GradientImage how, float2* to) {
  ECHOTRAIN_GRID_STRIDE(v, how.voxels) how.make(components, v, to);
}

}  // namespace

void sobel(Context& context, const float* image, const Extents& n, int axes, float* magnitude, float* components) {
  const auto pieces = [](std::int64_t extent, std::int64_t size) {
    return static_cast<unsigned>((extent + size - 1) / size);
  };
  const Image there{image, n[0], n[1], n[2], axes};
  const dim3 threads(kWidth, kHeight);
  const cudaStream_t stream = stream_of(context);
  if (axes == 2)
    sobel_kernel<2><<<dim3(pieces(n[2], kWidth), pieces(pieces(n[1], kRun), kHeight)), threads, 0, stream>>>(
        there, magnitude, components);
  else
    sobel_kernel<3><<<dim3(pieces(n[2], kWidth), pieces(n[1], kHeight), pieces(n[0], kRun)), threads, 0, stream>>>(
        there, magnitude, components);
  check_launch("sobel");
}

void gradient_image(Context& context, const float* components, const GradientImage& how, cfloat* to) {
  gradient_image_kernel<<<blocks_for(how.voxels), kThreads, 0, stream_of(context)>>>(components, how, device_view(to));
  check_launch("gradient_image");
}

void edge_weights(Context& context, const float* reference, const Extents& n, int axes, float strength, double quantile,
                  float* weights) {
  const Image image{reference, n[0], n[1], n[2], axes};
  const std::int64_t all = axes * volume(n);
  const unsigned blocks = blocks_for(all);
  const cudaStream_t stream = stream_of(context);
  Array<float> found = context.allocate<float>({3});
  differences_kernel<<<blocks, kThreads, 0, stream>>>(image, weights);
  const DeviceView<const float> sizes(weights, {all});
  cuda::extremes(context, sizes, DeviceView<float>(found.data(), {2}));
  cuda::quantile(context, sizes, quantile, DeviceView<float>(found.data() + 2, {1}));
  weights_kernel<<<blocks, kThreads, 0, stream>>>(image, strength, found.data(), weights);
  check_launch("edge_weights");
}

}  // namespace echotrain::numerics::cuda
