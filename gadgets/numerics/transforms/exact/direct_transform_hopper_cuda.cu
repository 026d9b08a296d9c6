// The direct transform's matrix product for devices of compute capability 9.0, by instructions that only these have.
// Four warps copy factors and make the bases of the left factor, as far ahead as there is room. Eight warps, or four in
// small blocks, multiply: the tensor cores take the right factor from shared memory, and work while the next left
// factor is made. The file is built for those devices alone; other devices never run it.
#include <algorithm>
#include <cuda/ptx>

#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/transforms/exact/direct_transform_product.cuh"

namespace echotrain::numerics::cuda {
namespace {

namespace ptx = ::cuda::ptx;

constexpr int kMakers = 3;  // warps that make bases; they take steps in turn
constexpr int kMostShared = 227 << 10, kMostStages = 16;
constexpr int kProducers = 128;
// Registers per thread of the largest blocks, once its role as producer or consumer is known.
constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;
template <class F>
constexpr bool kMovesRegisters = F::kWarps == kWarps;
static_assert(kProducers * kProducerRegisters + kBlockThreads * kConsumerRegisters <= 65536);

/// The form of a block: the warps that multiply, the m-tiles of each (a group of columns per m-tile), the steps that
/// are taken at a time, and the block's time relative to other forms.
template <int kWarps_, int kTiles_, int kSteps_, int kTime_>
struct Form {
  static constexpr int kWarps = kWarps_, kTiles = kTiles_, kSteps = kSteps_, kTime = kTime_;
  static constexpr int kGroups = kWarps * kTiles, kConsumers = kWarps * 32, kThreads = kProducers + kConsumers;
};
// Large blocks waste least; smaller ones serve images that would fill too few large ones. Times were measured on an
// H200.
using Large = Form<8, 2, 1, 30>;
using Medium = Form<8, 1, 2, 17>;
using Small = Form<4, 1, 2, 10>;

template <class F>
__device__ std::int64_t group_of_block(int i) {
  return static_cast<std::int64_t>(blockIdx.x) * F::kGroups + i;
}

template <bool kExact, int kRows, class F>
struct Memory {
  struct Stage {
    alignas(128) unsigned char right[F::kSteps][right_bytes(kExact, kRows)];
    StepPhases phases[F::kSteps];
    StepData data[F::kSteps];
    float2 bases[F::kSteps][F::kGroups][kStep];  // d exp(2 pi i (ky y + kz z)) at each group's first column
  };
  using Sums = float4[F::kWarps][F::kTiles][kRows / 8][32];
  static constexpr int kCount = std::min<int>(
      kMostStages, (kMostShared - static_cast<int>(sizeof(Sums)) - 1024) / static_cast<int>(sizeof(Stage)));
  Stage stages[kCount];
  Sums sums;
  // Barriers of each stage: its copies have come; its bases are made; nobody reads it any more.
  std::uint64_t copied[kCount], made[kCount], read[kCount];
  int2 positions[F::kGroups];  // (y, z) of each group's first column
};

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

__device__ void fence_registers() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void products_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Tells the compiler that these registers change here.
template <int kTiles>
__device__ void changed(float (&sum)[kTiles][4]) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) asm volatile("" : "+f"(sum[i][j])::"memory");
}

/// Waits for the end of the phase of this parity.
__device__ void wait(std::uint64_t& barrier, int parity) {
  while (!ptx::mbarrier_try_wait_parity(&barrier, static_cast<std::uint32_t>(parity))) {
  }
}
template <class T>
__device__ void copy_in_bulk(T& to, const void* from, std::uint64_t& barrier) {
  ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, &to, from, sizeof(T), &barrier);
}

/// The place of a step in a ring of so many places, and the parity of its turn there.
template <int kCount>
struct Turn {
  static constexpr int kPlaces = kCount;
  int place = 0, parity = 0;
  __device__ void advance(int steps) {
    place += steps;
    if (place >= kCount) place -= kCount, parity ^= 1;
  }
};

/// Describes tiles of 8 rows x 16 bytes, 128 bytes from one to the next along the samples and 256 along the rows.
__device__ std::uint64_t describe(std::uint32_t address) {
  return ((address & 0x3FFFF) >> 4) | (std::uint64_t{128 >> 4} << 16) | (std::uint64_t{256 >> 4} << 32);
}

/// Copies factors as far ahead as there is room. Runs in one thread.
template <bool kExact, int kRows, class F>
__device__ void copy_factors(const Work& work, Memory<kExact, kRows, F>& memory) {
  constexpr int kRightBytes = right_bytes(kExact, kRows);
  const unsigned char* right = work.right + blockIdx.y * work.capacity * kRightBytes;
  const StepData* data = work.data + blockIdx.z * work.capacity;
  Turn<Memory<kExact, kRows, F>::kCount> turn;
  for (int step = 0; step < work.steps; step += F::kSteps, turn.advance(1)) {
    if (step >= turn.kPlaces * F::kSteps) wait(memory.read[turn.place], turn.parity ^ 1);
    auto& stage = memory.stages[turn.place];
    std::uint64_t& copied = memory.copied[turn.place];
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &copied,
                                   sizeof(stage.right) + sizeof(stage.phases) + sizeof(stage.data));
    copy_in_bulk(stage.right, right + static_cast<std::int64_t>(step) * kRightBytes, copied);
    copy_in_bulk(stage.phases, work.phases + step, copied);
    copy_in_bulk(stage.data, data + step, copied);
  }
}

/// Makes the bases of every kMakers-th step. Runs in one warp.
template <bool kExact, int kRows, class F>
__device__ void make_bases(const Work& work, Memory<kExact, kRows, F>& memory, int first, int lane) {
  Turn<Memory<kExact, kRows, F>::kCount> turn;
  turn.advance(first);
  for (int step = first * F::kSteps; step < work.steps; step += kMakers * F::kSteps, turn.advance(kMakers)) {
    auto& stage = memory.stages[turn.place];
    wait(memory.copied[turn.place], turn.parity);
    const int sample = lane % kStep;
#pragma unroll
    for (int of_stage = 0; of_stage < F::kSteps; ++of_stage)
#pragma unroll 4
      for (int i = 0; i < F::kGroups; i += 32 / kStep) {
        const int group = i + lane / kStep;
        stage.bases[of_stage][group][sample] =
            make_base<kExact>(stage.phases[of_stage], stage.data[of_stage], sample, memory.positions[group]);
      }
    ptx::mbarrier_arrive(&memory.made[turn.place]);
  }
}

/// Multiplies. Four warps work on F::kTiles m-tiles of 64 rows.
template <bool kExact, int kRows, class F>
__device__ void consume(const DirectTiles& tiles, const Work& work, Memory<kExact, kRows, F>& memory, int thread) {
  constexpr int kTiles = kRows / 8;
  const int warp = thread / 32, lane = thread % 32;
  const float* scales = work.scales + blockIdx.z * (work.capacity / kStepsOfGroup);
  float4* all_sums = lane_sums<kRows>(tiles, work, group_of_block<F>(warp * F::kTiles), lane);
  float4* sums = &memory.sums[warp][0][0][lane];  // no other thread touches them
  for (int i = 0; i < F::kTiles * kTiles; ++i) sums[i * 32] = all_sums[i * 32];
  Turn<Memory<kExact, kRows, F>::kCount> now, next;
  struct Factors {
    Left<kExact, F::kTiles> of[F::kSteps];
  };
  const auto make = [&](Factors& left) {
    const auto& stage = memory.stages[next.place];
#pragma unroll
    for (int s = 0; s < F::kSteps; ++s)
#pragma unroll
      for (int unit = 0; unit < 2 * F::kTiles; ++unit)
        make_left(left.of[s], unit / 2, unit % 2, stage.phases[s], stage.bases[s][warp * F::kTiles + unit / 2]);
  };
  const auto await = [&] {
    wait(memory.copied[next.place], next.parity);
    wait(memory.made[next.place], next.parity);
  };
  Factors left[2];
  await();
  make(left[0]);
  float sum[F::kTiles][kTiles][4];
  int before = 0;  // the place of the previous steps
  for (int begin = 0; begin < work.steps; begin += kStepsOfGroup) {
    const float scale = scales[begin / kStepsOfGroup];
#pragma unroll 2
    for (int i = 0; i < kStepsOfGroup / F::kSteps; ++i) {
      const int step = begin + i * F::kSteps;
#pragma unroll
      for (int s = 0; s < F::kSteps; ++s) {
        const std::uint32_t right = shared_address(memory.stages[now.place].right[s]);
        const std::uint64_t high = describe(right), low = describe(right + kRows * kStep * 2);
        const Left<kExact, F::kTiles>& factor = left[i % 2].of[s];
#pragma unroll
        for (int m = 0; m < F::kTiles; ++m) {
          if (s == 0) fence_registers();
          multiply_add(sum[m], factor.high[m], high, i > 0 || s > 0);
          if constexpr (kExact) {
            multiply_add(sum[m], factor.low[m], high, true);
            multiply_add(sum[m], factor.high[m], low, true);
          }
        }
      }
      products_end();
      next.advance(1);
      if (step + F::kSteps < work.steps) await();
      products_wait<1>();  // waits for the previous steps, whose factors may then be overwritten
      if (step > 0) ptx::mbarrier_arrive(&memory.read[before]);
      __syncwarp();
      make(left[(i + 1) % 2]);
      before = now.place;
      now = next;
    }
    products_wait<0>();
    for (int m = 0; m < F::kTiles; ++m) {
      changed(sum[m]);
      add_group(sum[m], scale, sums + m * kTiles * 32);
    }
  }
  for (int i = 0; i < F::kTiles * kTiles; ++i) all_sums[i * 32] = sums[i * 32];
}
#endif

template <bool kExact, int kRows, class F>
__global__ void __launch_bounds__(F::kThreads, 1) hopper_kernel(DirectGrid grid, DirectTiles tiles, Work work) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) unsigned char raw[];
  auto& memory = *reinterpret_cast<Memory<kExact, kRows, F>*>(raw);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    for (int i = 0; i < memory.kCount; ++i) {
      ptx::mbarrier_init(&memory.copied[i], 1);
      ptx::mbarrier_init(&memory.made[i], 32);
      ptx::mbarrier_init(&memory.read[i], F::kConsumers);
    }
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  if (thread < F::kGroups) memory.positions[thread] = group_position(grid, tiles, group_of_block<F>(thread));
  __syncthreads();
  if (thread < kProducers) {
    if constexpr (kMovesRegisters<F>) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    if (thread >= 32)
      make_bases(work, memory, thread / 32 - 1, thread % 32);
    else if (thread == 0)
      copy_factors(work, memory);
  } else {
    if constexpr (kMovesRegisters<F>) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
    consume(tiles, work, memory, thread - kProducers);
  }
#endif
}

template <bool kExact, int kRows, class F>
void multiply(const DirectGrid& grid, const DirectTiles& tiles, const Work& work, cudaStream_t stream) {
  constexpr int kBytes = sizeof(Memory<kExact, kRows, F>);
  check(cudaFuncSetAttribute(hopper_kernel<kExact, kRows, F>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "asking for shared memory");
  const dim3 blocks(static_cast<unsigned>((tiles.groups + F::kGroups - 1) / F::kGroups),
                    static_cast<unsigned>(tiles.blocks), static_cast<unsigned>(grid.coils));
  hopper_kernel<kExact, kRows, F><<<blocks, F::kThreads, kBytes, stream>>>(grid, tiles, work);
  check_launch("direct transform");
}

template <class F>
std::int64_t blocks_of(const DirectGrid& grid, const DirectTiles& tiles) {
  return (tiles.groups + F::kGroups - 1) / F::kGroups * tiles.blocks * grid.coils;
}

template <class F>
void multiply(const DirectGrid& grid, const DirectTiles& tiles, const Work& work, cudaStream_t stream) {
  const bool exact = grid.precision == Precision::exact;
  const auto product_of = tiles.rows == 64 ? (exact ? multiply<true, 64, F> : multiply<false, 64, F>)
                                           : (exact ? multiply<true, 128, F> : multiply<false, 128, F>);
  product_of(grid, tiles, work, stream);
}

}  // namespace

bool hopper(Context& context) {
  if (!context.resources().options().hopper) return false;
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, context.device()), "asking what it can do");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, context.device()), "asking what it can do");
  return major == 9 && minor == 0;
}

void multiply_on_hopper(Context& context, const DirectGrid& grid, const DirectTiles& tiles, const Work& work) {
  int processors = 0;
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, context.device()), "asking for its size");
  const auto time_of = [&](std::int64_t blocks, int time) { return (blocks + processors - 1) / processors * time; };
  const std::int64_t large = time_of(blocks_of<Large>(grid, tiles), Large::kTime),
                     medium = time_of(blocks_of<Medium>(grid, tiles), Medium::kTime),
                     small = time_of(blocks_of<Small>(grid, tiles), Small::kTime);
  const auto product_of = large <= std::min(medium, small) ? multiply<Large>
                          : medium <= small                ? multiply<Medium>
                                                           : multiply<Small>;
  product_of(grid, tiles, work, stream_of(context));
}

}  // namespace echotrain::numerics::cuda
