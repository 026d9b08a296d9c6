#include "gadgets/numerics/cuda_support.cuh"
#include "gadgets/numerics/sobel_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kBins = 256;  // of a pass that finds eight bits of the quantile
static_assert(kBins == kThreads);

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

/// Of Sobel's operator at offset d = -1, 0, 1 along an axis.
__device__ float smooth(int d) { return d == 0 ? 0.5f : 0.25f; }
__device__ float difference(int d) { return 0.5f * d; }

__global__ void sobel_kernel(Image image, float* magnitude, float* components) {
  const std::int64_t voxels = image.nz * image.ny * image.nx;
  ECHOTRAIN_GRID_STRIDE(v, voxels) {
    const std::int64_t x = v % image.nx, y = v / image.nx % image.ny, z = v / image.nx / image.ny;
    const int reach_z = image.axes == 3 ? 1 : 0;
    float gradient[3] = {0, 0, 0};
    for (int dz = -reach_z; dz <= reach_z; ++dz)
      for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx) {
          const float value = image.at(z + dz, y + dy, x + dx), over_z = reach_z ? smooth(dz) : 1.0f;
          gradient[0] += over_z * smooth(dy) * difference(dx) * value;
          gradient[1] += over_z * difference(dy) * smooth(dx) * value;
          gradient[2] += difference(dz) * smooth(dy) * smooth(dx) * value;
        }
    magnitude[v] = sqrtf(gradient[0] * gradient[0] + gradient[1] * gradient[1] + gradient[2] * gradient[2]);
    if (components != nullptr)
      for (int a = 0; a < image.axes; ++a) components[a * voxels + v] = gradient[a];
  }
}

/// Whether voxel i % voxels has a neighbour along axis i / voxels.
__device__ bool is_edge(const Image& image, std::int64_t i) {
  const std::int64_t voxels = image.nz * image.ny * image.nx, axis = i / voxels, v = i % voxels;
  if (axis == 0) return v % image.nx + 1 < image.nx;
  if (axis == 1) return v / image.nx % image.ny + 1 < image.ny;
  return v / image.nx / image.ny + 1 < image.nz;
}

/// sizes[i] = |difference| of each edge, 0 where there is none or it is not finite.
__global__ void differences_kernel(Image image, float* sizes) {
  const std::int64_t voxels = image.nz * image.ny * image.nx;
  ECHOTRAIN_GRID_STRIDE(i, image.axes * voxels) {
    const int axis = static_cast<int>(i / voxels);
    const std::int64_t v = i % voxels, x = v % image.nx, y = v / image.nx % image.ny, z = v / image.nx / image.ny;
    float sum = 0;
    if (is_edge(image, i)) {
      const int ex = axis == 0, ey = axis == 1, ez = axis == 2;
      const int reach_x = 1 - ex, reach_y = 1 - ey, reach_z = image.axes == 3 ? 1 - ez : 0;
      for (int dz = -reach_z; dz <= reach_z; ++dz)
        for (int dy = -reach_y; dy <= reach_y; ++dy)
          for (int dx = -reach_x; dx <= reach_x; ++dx) {
            const float weight =
                (reach_z ? smooth(dz) : 1.0f) * (reach_y ? smooth(dy) : 1.0f) * (reach_x ? smooth(dx) : 1.0f);
            // The neighbour is inside: only the axes across are cut at borders.
            const long long bz = min(max(static_cast<long long>(z + dz), 0ll), image.nz - 1),
                            by = min(max(static_cast<long long>(y + dy), 0ll), image.ny - 1),
                            bx = min(max(static_cast<long long>(x + dx), 0ll), image.nx - 1);
            sum += weight * (image.at(bz + ez, by + ey, bx + ex) - image.at(bz, by, bx));
          }
    }
    sizes[i] = isfinite(sum) ? fabsf(sum) : 0.0f;
  }
}

/// What is known of the quantile: its leading bits, and its rank among the edges that have them. Sizes are not
/// negative, so they are ordered as their bits are.
struct Selection {
  unsigned long long counts[kBins];
  unsigned long long rank;
  unsigned prefix;
  unsigned most;  // the bits of the largest size
};

__global__ void begin_kernel(Selection* selection, unsigned long long rank) {
  selection->counts[threadIdx.x] = 0;
  if (threadIdx.x == 0) {
    selection->rank = rank;
    selection->prefix = 0;
    selection->most = 0;
  }
}

/// Counts edges by the eight bits from `shift` on, of those whose bits above are known to be right. Counts are whole
/// numbers: their order does not matter.
__global__ void count_kernel(Image image, const float* sizes, int shift, Selection* selection) {
  __shared__ unsigned counts[kBins];
  counts[threadIdx.x] = 0;
  __syncthreads();
  const unsigned prefix = selection->prefix;
  unsigned most = 0;
  ECHOTRAIN_GRID_STRIDE(i, image.axes * image.nz * image.ny * image.nx) {
    if (!is_edge(image, i)) continue;
    const unsigned bits = __float_as_uint(sizes[i]);
    most = max(most, bits);
    if (shift == 24 || bits >> (shift + 8) == prefix) atomicAdd(&counts[bits >> shift & 255u], 1u);
  }
  if (shift == 24) atomicMax(&selection->most, most);
  __syncthreads();
  if (counts[threadIdx.x] > 0)
    atomicAdd(&selection->counts[threadIdx.x], static_cast<unsigned long long>(counts[threadIdx.x]));
}

/// Takes the bin that holds the rank. One block; clears the counts for the next pass.
__global__ void choose_kernel(Selection* selection) {
  if (threadIdx.x == 0) {
    unsigned bin = 0;
    while (bin + 1 < kBins && selection->rank >= selection->counts[bin]) selection->rank -= selection->counts[bin++];
    selection->prefix = selection->prefix << 8 | bin;
  }
  __syncthreads();
  selection->counts[threadIdx.x] = 0;
}

__global__ void weights_kernel(Image image, float strength, const Selection* selection, float* weights) {
  const float sigma =
      fmaxf(strength * __uint_as_float(selection->prefix), __uint_as_float(selection->most) / kMostRatio);
  ECHOTRAIN_GRID_STRIDE(i, image.axes * image.nz * image.ny * image.nx) {
    const float ratio = sigma > 0 ? weights[i] / sigma : 0.0f;
    weights[i] = is_edge(image, i) ? 1 / (1 + ratio * ratio) : 0.0f;
  }
}

}  // namespace

void sobel(Context& context, const float* image, const Extents& n, int axes, float* magnitude, float* components) {
  sobel_kernel<<<blocks_for(volume(n)), kThreads, 0, stream_of(context)>>>({image, n[0], n[1], n[2], axes}, magnitude,
                                                                           components);
  check_launch("sobel");
}

void edge_weights(Context& context, const float* reference, const Extents& n, int axes, float strength,
                  std::int64_t rank, float* weights) {
  const Image image{reference, n[0], n[1], n[2], axes};
  const unsigned blocks = blocks_for(axes * volume(n));
  const cudaStream_t stream = stream_of(context);
  auto memory = context.allocate<std::uint64_t>({(sizeof(Selection) + 7) / 8});
  auto* const selection = reinterpret_cast<Selection*>(memory.data());
  differences_kernel<<<blocks, kThreads, 0, stream>>>(image, weights);
  begin_kernel<<<1, kThreads, 0, stream>>>(selection, static_cast<unsigned long long>(rank));
  for (int shift = 24; shift >= 0; shift -= 8) {
    count_kernel<<<blocks, kThreads, 0, stream>>>(image, weights, shift, selection);
    choose_kernel<<<1, kThreads, 0, stream>>>(selection);
  }
  weights_kernel<<<blocks, kThreads, 0, stream>>>(image, strength, selection, weights);
  check_launch("edge_weights");
}

}  // namespace echotrain::numerics::cuda
