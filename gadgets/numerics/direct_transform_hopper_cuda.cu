// The direct transform's matrix product for devices of compute capability 9.0, by the instructions that only they have:
// the tensor cores take the right factor from shared memory, and work while the next step's left factor is made. Built
// for them alone; others never come here.
#include "gadgets/numerics/direct_transform_product.cuh"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kStages = 4, kRound = 2;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
__device__ void multiply_add(float (&sum)[8][4], const std::uint32_t (&a)[4], std::uint64_t b, bool add) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %37, 0;"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
      "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1, 0;}"
      : "+f"(sum[0][0]), "+f"(sum[0][1]), "+f"(sum[0][2]), "+f"(sum[0][3]), "+f"(sum[1][0]), "+f"(sum[1][1]),
        "+f"(sum[1][2]), "+f"(sum[1][3]), "+f"(sum[2][0]), "+f"(sum[2][1]), "+f"(sum[2][2]), "+f"(sum[2][3]),
        "+f"(sum[3][0]), "+f"(sum[3][1]), "+f"(sum[3][2]), "+f"(sum[3][3]), "+f"(sum[4][0]), "+f"(sum[4][1]),
        "+f"(sum[4][2]), "+f"(sum[4][3]), "+f"(sum[5][0]), "+f"(sum[5][1]), "+f"(sum[5][2]), "+f"(sum[5][3]),
        "+f"(sum[6][0]), "+f"(sum[6][1]), "+f"(sum[6][2]), "+f"(sum[6][3]), "+f"(sum[7][0]), "+f"(sum[7][1]),
        "+f"(sum[7][2]), "+f"(sum[7][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
}
__device__ void multiply_add(float (&sum)[16][4], const std::uint32_t (&a)[4], std::uint64_t b, bool add) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %69, 0;"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
      "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, "
      "%35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, "
      "%57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, p, 1, 1, 0;}"
      : "+f"(sum[0][0]), "+f"(sum[0][1]), "+f"(sum[0][2]), "+f"(sum[0][3]), "+f"(sum[1][0]), "+f"(sum[1][1]),
        "+f"(sum[1][2]), "+f"(sum[1][3]), "+f"(sum[2][0]), "+f"(sum[2][1]), "+f"(sum[2][2]), "+f"(sum[2][3]),
        "+f"(sum[3][0]), "+f"(sum[3][1]), "+f"(sum[3][2]), "+f"(sum[3][3]), "+f"(sum[4][0]), "+f"(sum[4][1]),
        "+f"(sum[4][2]), "+f"(sum[4][3]), "+f"(sum[5][0]), "+f"(sum[5][1]), "+f"(sum[5][2]), "+f"(sum[5][3]),
        "+f"(sum[6][0]), "+f"(sum[6][1]), "+f"(sum[6][2]), "+f"(sum[6][3]), "+f"(sum[7][0]), "+f"(sum[7][1]),
        "+f"(sum[7][2]), "+f"(sum[7][3]), "+f"(sum[8][0]), "+f"(sum[8][1]), "+f"(sum[8][2]), "+f"(sum[8][3]),
        "+f"(sum[9][0]), "+f"(sum[9][1]), "+f"(sum[9][2]), "+f"(sum[9][3]), "+f"(sum[10][0]), "+f"(sum[10][1]),
        "+f"(sum[10][2]), "+f"(sum[10][3]), "+f"(sum[11][0]), "+f"(sum[11][1]), "+f"(sum[11][2]), "+f"(sum[11][3]),
        "+f"(sum[12][0]), "+f"(sum[12][1]), "+f"(sum[12][2]), "+f"(sum[12][3]), "+f"(sum[13][0]), "+f"(sum[13][1]),
        "+f"(sum[13][2]), "+f"(sum[13][3]), "+f"(sum[14][0]), "+f"(sum[14][1]), "+f"(sum[14][2]), "+f"(sum[14][3]),
        "+f"(sum[15][0]), "+f"(sum[15][1]), "+f"(sum[15][2]), "+f"(sum[15][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
}

/// What this thread wrote is what the tensor cores will read.
__device__ void fence_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void fence_registers() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void products_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// The compiler must take these registers as changed here.
template <int kTiles>
__device__ void changed(float (&sum)[kTiles][4]) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) asm volatile("" : "+f"(sum[i][j])::"memory");
}

/// Tiles of 8 rows x 16 bytes, 128 bytes from one to the next along the samples and 256 along the rows.
__device__ std::uint64_t describe(std::uint32_t address) {
  return ((address & 0x3FFFF) >> 4) | (std::uint64_t{128 >> 4} << 16) | (std::uint64_t{256 >> 4} << 32);
}
#endif

template <bool kExact, int kRows>
__global__ void __launch_bounds__(kBlockThreads, 1) hopper_kernel(DirectGrid grid, DirectTiles tiles, Work work) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int kTiles = kRows / 8;
  using ThisBlock = Block<kExact, kRows, kRound, kStages>;
  extern __shared__ __align__(128) unsigned char raw[];
  ThisBlock block(grid, tiles, work, *reinterpret_cast<typename ThisBlock::Memory*>(raw));
  for (int i = 0; i < kStages - 2; ++i) block.fetch(i);
  copies_wait<0>();
  fence_writes();
  __syncthreads();
  block.template make_bases<2>(0);
  __syncwarp();
  Left<kExact> left[2];
  block.make_left(left[0], 0);

  float sum[2][kTiles][4];
  for (int begin = 0; begin < block.steps; begin += kStepsOfGroup) {
    const float scale = block.scale_of_group(begin);
#pragma unroll 2
    for (int i = 0; i < kStepsOfGroup; ++i) {
      const int step = begin + i;
      if (i % kRound == 0) {
        copies_wait<kStages - 3 - ThisBlock::kAhead>();  // what bases are made of is there
        fence_writes();
        __syncthreads();
        block.fetch(step / kRound + kStages - 2);  // the step before may still be read
      }
      const std::uint64_t high = describe(block.right(step)), low = describe(block.right(step) + kRows * kStep * 2);
      Left<kExact>& now = left[i % 2];
      const auto multiply = [&](int m) {
        fence_registers();
        multiply_add(sum[m], now.high[m], high, i > 0);
        if constexpr (kExact) {
          multiply_add(sum[m], now.low[m], high, true);
          multiply_add(sum[m], now.high[m], low, true);
        }
        products_end();
      };
      multiply(0);
      multiply(1);
      if (i % kRound == 0) block.template make_bases<kRound>(step + 2);
      products_wait<2>();  // the step before, whose factor is overwritten now
      __syncwarp();
      block.make_left(left[(i + 1) % 2], step + 1);
    }
    products_wait<0>();
    for (int m = 0; m < 2; ++m) {
      changed(sum[m]);
      block.add(sum[m], m, scale);
    }
  }
  block.end();
#endif
}

template <bool kExact, int kRows>
void multiply(const DirectGrid& grid, const DirectTiles& tiles, const Work& work, cudaStream_t stream) {
  constexpr int kBytes = sizeof(typename Block<kExact, kRows, kRound, kStages>::Memory);
  check(cudaFuncSetAttribute(hopper_kernel<kExact, kRows>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "asking for shared memory");
  const dim3 blocks(static_cast<unsigned>(tiles.tiles), static_cast<unsigned>(tiles.blocks),
                    static_cast<unsigned>(grid.coils));
  hopper_kernel<kExact, kRows><<<blocks, kBlockThreads, kBytes, stream>>>(grid, tiles, work);
  check_launch("direct transform");
}

}  // namespace

bool hopper(Context& context) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, context.device()), "asking for its age");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, context.device()), "asking for its age");
  return major == 9 && minor == 0;
}

void multiply_on_hopper(const DirectGrid& grid, const DirectTiles& tiles, const Work& work, cudaStream_t stream) {
  const bool exact = grid.precision == Precision::exact;
  const auto product_of = tiles.rows == 64 ? (exact ? multiply<true, 64> : multiply<false, 64>)
                                           : (exact ? multiply<true, 128> : multiply<false, 128>);
  product_of(grid, tiles, work, stream);
}

}  // namespace echotrain::numerics::cuda
