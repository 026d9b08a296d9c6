#include <algorithm>
#include <cub/device/device_reduce.cuh>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "tests/bench/device_graph.h"
#include "tests/seeds/seed_micgpu.h"

namespace echotrain::seed {
namespace {

using numerics::Array;
using numerics::Context;
using numerics::DeviceView;
using numerics::cuda::check;
using numerics::cuda::check_launch;
using numerics::cuda::stream_of;

constexpr int kBlock = 128;  // threads

// --- reductions

__global__ void one_thread_kernel(const std::int32_t* from, std::int32_t n, std::int32_t* to) {
  std::int32_t sum = 0;
  for (std::int32_t i = 0; i < n; ++i) sum += from[i];
  *to = sum;
}

/// Kernels 1 to 3: a block adds up as many numbers as it has threads.
template <Reduction which>
__global__ void tree_kernel(const std::int32_t* from, std::int32_t n, std::int32_t* to) {
  __shared__ std::int32_t numbers[kBlock];
  const unsigned t = threadIdx.x, i = blockIdx.x * kBlock + t;
  numbers[t] = i < static_cast<unsigned>(n) ? from[i] : 0;
  __syncthreads();
  if constexpr (which == Reduction::sequential) {
    for (unsigned s = kBlock / 2; s > 0; s >>= 1) {
      if (t < s) numbers[t] += numbers[t + s];
      __syncthreads();
    }
  } else {
    for (unsigned s = 1; s < kBlock; s *= 2) {
      if constexpr (which == Reduction::divergent) {
        if (t % (2 * s) == 0) numbers[t] += numbers[t + s];
      } else {
        const unsigned at = 2 * s * t;
        if (at < kBlock) numbers[at] += numbers[at + s];
      }
      __syncthreads();
    }
  }
  if (t == 0) to[blockIdx.x] = numbers[0];
}

constexpr int kSeveralBlocks = 1024;  // of kernel 7 at most

/// Kernel 7: each thread adds up numbers of the whole array, two at a time; the last warp needs no barrier of the
/// block.
__global__ void several_kernel(const std::int32_t* from, std::int32_t n, std::int32_t* to) {
  __shared__ std::int32_t numbers[kBlock];
  const unsigned t = threadIdx.x, step = 2 * kBlock * gridDim.x;
  std::int32_t sum = 0;
  for (unsigned i = blockIdx.x * 2 * kBlock + t; i < static_cast<unsigned>(n); i += step)
    sum += from[i] + (i + kBlock < static_cast<unsigned>(n) ? from[i + kBlock] : 0);
  numbers[t] = sum;
  __syncthreads();
  if (t < 64) numbers[t] += numbers[t + 64];
  __syncthreads();
  if (t >= 32) return;
  numbers[t] += numbers[t + 32];
#pragma unroll
  for (unsigned s = 16; s > 0; s /= 2) {
    __syncwarp();
    const std::int32_t other = t < s ? numbers[t + s] : 0;
    __syncwarp();
    numbers[t] += other;
  }
  if (t == 0) to[blockIdx.x] = numbers[0];
}

// --- Sobel

template <class Pixel>
struct Traits;
template <>
struct Traits<std::uint8_t> {
  using Four = uchar4;
  static __device__ std::uint8_t put(float v) { return static_cast<std::uint8_t>(fminf(v, 255)); }
};
template <>
struct Traits<float> {
  using Four = float4;
  static __device__ float put(float v) { return v; }
};

template <class Pixel>
__device__ Pixel edge_of(float ul, float um, float ur, float ml, float mr, float ll, float lm, float lr) {
  const float across = ur + 2 * mr + lr - ul - 2 * ml - ll, along = ul + 2 * um + ur - ll - 2 * lm - lr;
  return Traits<Pixel>::put(fabsf(across) + fabsf(along));
}

__device__ int inside(int i) { return min(max(i, 0), kEdge - 1); }

/// Every read, repeated ones too, from global memory; a thread per pixel.
template <class Pixel>
__global__ void global_kernel(const Pixel* from, Pixel* to) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const auto at = [from](int row, int column) {
    return static_cast<float>(from[inside(row) * kEdge + inside(column)]);
  };
  to[y * kEdge + x] = edge_of<Pixel>(at(y - 1, x - 1), at(y - 1, x), at(y - 1, x + 1), at(y, x - 1), at(y, x + 1),
                                     at(y + 1, x - 1), at(y + 1, x), at(y + 1, x + 1));
}

template <class Pixel>
__global__ void texture_kernel(cudaTextureObject_t from, Pixel* to) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const auto at = [from](int row, int column) {
    return static_cast<float>(tex2D<Pixel>(from, static_cast<float>(column), static_cast<float>(row)));
  };
  to[y * kEdge + x] = edge_of<Pixel>(at(y - 1, x - 1), at(y - 1, x), at(y - 1, x + 1), at(y, x - 1), at(y, x + 1),
                                     at(y + 1, x - 1), at(y + 1, x), at(y + 1, x + 1));
}

constexpr int kTileX = 128, kTileY = 8;  // pixels of a block: 32 x 8 threads with four each

/// A tile and its rim in shared memory; a thread takes four pixels of a row, and each column of three once.
template <class Pixel>
__global__ void shared_kernel(const Pixel* from, Pixel* to) {
  __shared__ Pixel tile[kTileY + 2][kTileX + 2];
  const int x0 = blockIdx.x * kTileX - 1, y0 = blockIdx.y * kTileY - 1;
  for (int row = threadIdx.y; row < kTileY + 2; row += kTileY)
    for (int column = threadIdx.x; column < kTileX + 2; column += 32)
      tile[row][column] = from[inside(y0 + row) * kEdge + inside(x0 + column)];
  __syncthreads();
  float p[3][3];
  const int column = 4 * threadIdx.x, row = threadIdx.y;
  for (int j = 0; j < 3; ++j)
    for (int i = 0; i < 2; ++i) p[j][i] = tile[row + j][column + i];
  Pixel edges[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int l = k % 3, m = (k + 1) % 3, r = (k + 2) % 3;
    for (int j = 0; j < 3; ++j) p[j][r] = tile[row + j][column + k + 2];
    edges[k] = edge_of<Pixel>(p[0][l], p[0][m], p[0][r], p[1][l], p[1][r], p[2][l], p[2][m], p[2][r]);
  }
  using Four = typename Traits<Pixel>::Four;
  reinterpret_cast<Four*>(to)[((y0 + 1 + row) * kEdge + x0 + 1 + column) / 4] = {edges[0], edges[1], edges[2],
                                                                                 edges[3]};
}

template <class T>
std::vector<Array<T>> copies(Context& context, const std::vector<T>& values) {
  std::vector<Array<T>> out;
  for (int i = 0; i < kCopies; ++i)
    out.push_back(context.upload<T>({values.data(), {static_cast<std::int64_t>(values.size())}}));
  context.synchronize();
  return out;
}

}  // namespace

struct GpuNumbers::Impl {
  Context& context;
  std::vector<Array<std::int32_t>> ints;
  std::vector<Array<float>> floats;
  Array<std::int32_t> partial[2];
  Array<std::int32_t> sum;
  Array<float> float_sum;
  Array<std::uint8_t> space;
  std::size_t space_bytes = 0;

  template <class Kernel>
  void tree(Kernel kernel, int copy) {
    const std::int32_t* from = ints[static_cast<std::size_t>(copy)].data();
    for (int n = static_cast<int>(kNumbers), level = 0; n > 1; ++level) {
      const int blocks = (n + kBlock - 1) / kBlock;
      std::int32_t* to = blocks == 1 ? sum.data() : partial[level % 2].data();
      kernel<<<static_cast<unsigned>(blocks), kBlock, 0, stream_of(context)>>>(from, n, to);
      from = to;
      n = blocks;
    }
  }
  template <class T>
  cudaError_t cub_sum(void* memory, std::size_t& bytes, const T* from, T* to) {
    return cub::DeviceReduce::Sum(memory, bytes, from, to, static_cast<int>(kNumbers), stream_of(context));
  }
};

GpuNumbers::GpuNumbers(Context& context, const std::vector<std::int32_t>& ints, const std::vector<float>& floats)
    : impl_(new Impl{context, copies(context, ints), copies(context, floats), {}, {}, {}, {}}) {
  for (auto& partial : impl_->partial) partial = context.allocate<std::int32_t>({kNumbers / kBlock});
  impl_->sum = context.allocate<std::int32_t>({1});
  impl_->float_sum = context.allocate<float>({1});
  std::size_t for_ints = 0, for_floats = 0;
  check(impl_->cub_sum<std::int32_t>(nullptr, for_ints, nullptr, nullptr), "asking CUB for its space");
  check(impl_->cub_sum<float>(nullptr, for_floats, nullptr, nullptr), "asking CUB for its space");
  impl_->space_bytes = std::max(for_ints, for_floats);
  impl_->space = context.allocate<std::uint8_t>({static_cast<std::int64_t>(impl_->space_bytes)});
}
GpuNumbers::~GpuNumbers() = default;

DeviceView<const float> GpuNumbers::floats(int copy) const {
  return impl_->floats[static_cast<std::size_t>(copy)].cview();
}

void GpuNumbers::run(Reduction which, int copy) {
  const auto at = static_cast<std::size_t>(copy);
  switch (which) {
    case Reduction::one_thread:
      one_thread_kernel<<<1, 1, 0, stream_of(impl_->context)>>>(impl_->ints[at].data(),
                                                                static_cast<std::int32_t>(kNumbers), impl_->sum.data());
      break;
    case Reduction::divergent:
      impl_->tree(tree_kernel<Reduction::divergent>, copy);
      break;
    case Reduction::strided:
      impl_->tree(tree_kernel<Reduction::strided>, copy);
      break;
    case Reduction::sequential:
      impl_->tree(tree_kernel<Reduction::sequential>, copy);
      break;
    case Reduction::several: {
      const cudaStream_t stream = stream_of(impl_->context);
      std::int32_t* partial = impl_->partial[0].data();
      several_kernel<<<kSeveralBlocks, kBlock, 0, stream>>>(impl_->ints[at].data(), static_cast<int>(kNumbers),
                                                            partial);
      several_kernel<<<1, kBlock, 0, stream>>>(partial, kSeveralBlocks, impl_->sum.data());
      break;
    }
    case Reduction::cub_ints:
      check(impl_->cub_sum(impl_->space.data(), impl_->space_bytes,
                           static_cast<const std::int32_t*>(impl_->ints[at].data()), impl_->sum.data()),
            "CUB");
      break;
    case Reduction::cub_floats:
      check(impl_->cub_sum(impl_->space.data(), impl_->space_bytes, static_cast<const float*>(impl_->floats[at].data()),
                           impl_->float_sum.data()),
            "CUB");
      break;
  }
  check_launch("a reduction of the seed");
}

double GpuNumbers::result(Reduction which) {
  if (which == Reduction::cub_floats)
    return static_cast<double>(impl_->context.download<float>(impl_->float_sum.cview()).data()[0]);
  return impl_->context.download<std::int32_t>(impl_->sum.cview()).data()[0];
}

template <class Pixel>
struct GpuPicture<Pixel>::Impl {
  Context& context;
  std::vector<Array<Pixel>> copies;
  Array<Pixel> edges;
  std::vector<cudaArray_t> arrays;
  std::vector<cudaTextureObject_t> textures;
};

template <class Pixel>
GpuPicture<Pixel>::GpuPicture(Context& context, const std::vector<Pixel>& pixels)
    : impl_(new Impl{context, copies(context, pixels), context.allocate<Pixel>({kEdge, kEdge}), {}, {}}) {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<Pixel>();
  constexpr std::size_t kRow = kEdge * sizeof(Pixel);
  for (int i = 0; i < kCopies; ++i) {
    cudaResourceDesc what{};
    what.resType = cudaResourceTypeArray;
    check(cudaMallocArray(&what.res.array.array, &format, kEdge, kEdge), "making a texture");
    impl_->arrays.push_back(what.res.array.array);
    check(cudaMemcpy2DToArray(what.res.array.array, 0, 0, pixels.data(), kRow, kRow, kEdge, cudaMemcpyHostToDevice),
          "filling a texture");
    cudaTextureDesc how{};
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
    cudaTextureObject_t texture = 0;
    check(cudaCreateTextureObject(&texture, &what, &how, nullptr), "making a texture");
    impl_->textures.push_back(texture);
  }
}

template <class Pixel>
GpuPicture<Pixel>::~GpuPicture() {
  for (const auto texture : impl_->textures) cudaDestroyTextureObject(texture);
  for (const auto array : impl_->arrays) cudaFreeArray(array);
}

template <class Pixel>
DeviceView<const Pixel> GpuPicture<Pixel>::pixels(int copy) const {
  return impl_->copies[static_cast<std::size_t>(copy)].cview().reshaped({1, kEdge, kEdge});
}

template <class Pixel>
void GpuPicture<Pixel>::run(SobelMemory memory, int copy) {
  const auto at = static_cast<std::size_t>(copy);
  const cudaStream_t stream = stream_of(impl_->context);
  const dim3 threads(32, 8), pixels_each(kEdge / 32, kEdge / 8);
  Pixel* to = impl_->edges.data();
  switch (memory) {
    case SobelMemory::global:
      global_kernel<Pixel><<<pixels_each, threads, 0, stream>>>(impl_->copies[at].data(), to);
      break;
    case SobelMemory::texture:
      texture_kernel<Pixel><<<pixels_each, threads, 0, stream>>>(impl_->textures[at], to);
      break;
    case SobelMemory::shared:
      shared_kernel<Pixel><<<dim3(kEdge / kTileX, kEdge / kTileY), threads, 0, stream>>>(impl_->copies[at].data(), to);
      break;
  }
  check_launch("Sobel's operator of the seed");
}

template <class Pixel>
std::vector<Pixel> GpuPicture<Pixel>::result() {
  const numerics::HostArray<Pixel> host = impl_->context.template download<Pixel>(impl_->edges.cview());
  return {host.data(), host.data() + host.size()};
}

template class GpuPicture<std::uint8_t>;
template class GpuPicture<float>;

double gpu_seconds_of(Context& context, const std::function<void(int copy)>& work) {
  return bench::device_seconds_of({&context},
                                  [&] {
                                    for (int i = 0; i < kCopies; ++i) work(i);
                                  }) /
         kCopies;
}

double gpu_bandwidth(Context& context) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 30;
  const Array<std::uint8_t> from = context.zeros<std::uint8_t>({kBytes});
  Array<std::uint8_t> to = context.zeros<std::uint8_t>({kBytes});
  return 2.0 * kBytes /
         bench::device_seconds_of({&context}, [&] { context.copy<std::uint8_t>(from.cview(), to.view()); });
}

}  // namespace echotrain::seed
