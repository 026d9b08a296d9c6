// The direct transform's matrix product for devices of compute capability 9.0, by the instructions that only they have.
// Four warps copy factors and make the bases of the left factor, as far ahead as there is room; eight multiply: the
// tensor cores take the right factor from shared memory, and work while the next step's left factor is made. Built for
// them alone; others never come here.
#include <cstdlib>
#include <string_view>

#include "gadgets/numerics/direct_transform_product.cuh"

namespace echotrain::numerics::cuda {
namespace {

constexpr int stages_of(bool exact) { return exact ? 8 : 12; }  // steps whose factors are kept
constexpr int kMakers = 3;                                      // warps that make bases; they take steps in turn
constexpr int kProducers = 128, kThreadsOfBlock = kProducers + kBlockThreads;
// Registers of a thread: what the launch gives, and what producers and consumers then have.
constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;
static_assert(kProducers * kProducerRegisters + kBlockThreads * kConsumerRegisters <= 65536);

template <bool kExact, int kRows>
struct Memory {
  struct Stage {
    alignas(128) unsigned char right[right_bytes(kExact, kRows)];
    StepPhases phases;
    StepData data;
    float2 bases[kGroups][kStep];  // d exp(2 pi i (ky y + kz z)) at each group's first column
  };
  static constexpr int kCount = stages_of(kExact);
  Stage stages[kCount];
  float4 sums[kWarps][2][kRows / 8][32];
  // Of each stage: its copies are there; its bases too; nobody reads it any more.
  std::uint64_t copied[kCount], made[kCount], read[kCount];
  int2 positions[kGroups];  // (y, z) of each group's first column
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
/// The compiler must take these registers as changed here.
template <int kTiles>
__device__ void changed(float (&sum)[kTiles][4]) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) asm volatile("" : "+f"(sum[i][j])::"memory");
}

__device__ void barrier_start(std::uint64_t& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}
__device__ void arrive(std::uint64_t& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
__device__ void arrive_and_expect(std::uint64_t& barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
               : "memory");
}
/// Waits for the end of the phase of this parity.
__device__ void wait(std::uint64_t& barrier, int parity) {
  asm volatile(
      "{.reg .pred done;"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;"
      "@done bra over;"
      "bra again;"
      "over:}" ::"r"(shared_address(&barrier)),
      "r"(parity)
      : "memory");
}
template <class T>
__device__ void copy_in_bulk(T& to, const void* from, std::uint64_t& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(&to)),
               "l"(from), "n"(static_cast<int>(sizeof(T))), "r"(shared_address(&barrier))
               : "memory");
}

/// The place of a step among so many, and the parity of its turn there.
template <int kCount>
struct Turn {
  static constexpr int kPlaces = kCount;
  int place = 0, parity = 0;
  __device__ void advance(int steps) {
    place += steps;
    if (place >= kCount) place -= kCount, parity ^= 1;
  }
};

/// Tiles of 8 rows x 16 bytes, 128 bytes from one to the next along the samples and 256 along the rows.
__device__ std::uint64_t describe(std::uint32_t address) {
  return ((address & 0x3FFFF) >> 4) | (std::uint64_t{128 >> 4} << 16) | (std::uint64_t{256 >> 4} << 32);
}

/// Copies factors as far ahead as there is room; for one thread.
template <bool kExact, int kRows>
__device__ void copy_factors(const Work& work, Memory<kExact, kRows>& memory) {
  constexpr int kRightBytes = right_bytes(kExact, kRows);
  const unsigned char* right = work.right + blockIdx.y * work.capacity * kRightBytes;
  const StepData* data = work.data + blockIdx.z * work.capacity;
  Turn<Memory<kExact, kRows>::kCount> turn;
  for (int step = 0; step < work.steps; ++step, turn.advance(1)) {
    if (step >= turn.kPlaces) wait(memory.read[turn.place], turn.parity ^ 1);
    auto& stage = memory.stages[turn.place];
    std::uint64_t& copied = memory.copied[turn.place];
    arrive_and_expect(copied, sizeof(stage.right) + sizeof(stage.phases) + sizeof(stage.data));
    copy_in_bulk(stage.right, right + static_cast<std::int64_t>(step) * kRightBytes, copied);
    copy_in_bulk(stage.phases, work.phases + step, copied);
    copy_in_bulk(stage.data, data + step, copied);
  }
}

/// Makes the bases of every kMakers-th step; for one warp.
template <bool kExact, int kRows>
__device__ void make_bases(const Work& work, Memory<kExact, kRows>& memory, int first, int lane) {
  Turn<Memory<kExact, kRows>::kCount> turn;
  turn.advance(first);
  for (int step = first; step < work.steps; step += kMakers, turn.advance(kMakers)) {
    auto& stage = memory.stages[turn.place];
    wait(memory.copied[turn.place], turn.parity);
    const int sample = lane % kStep;
#pragma unroll 4
    for (int i = 0; i < kGroups; i += 32 / kStep) {
      const int group = i + lane / kStep;
      stage.bases[group][sample] = make_base<kExact>(stage.phases, stage.data, sample, memory.positions[group]);
    }
    __syncwarp();
    if (lane == 0) arrive(memory.made[turn.place]);
  }
}

/// Multiplies. Two m-tiles of 64 rows for each four warps.
template <bool kExact, int kRows>
__device__ void consume(const DirectTiles& tiles, const Work& work, Memory<kExact, kRows>& memory, int thread) {
  constexpr int kTiles = kRows / 8;
  const int warp = thread / 32, lane = thread % 32;
  const float* scales = work.scales + blockIdx.z * (work.capacity / kStepsOfGroup);
  float4* all_sums = lane_sums<kRows>(tiles, work, warp, lane);
  float4* sums = &memory.sums[warp][0][0][lane];  // no other thread touches them
  for (int i = 0; i < 2 * kTiles; ++i) sums[i * 32] = all_sums[i * 32];
  Turn<Memory<kExact, kRows>::kCount> now, next;
  const auto make = [&](Left<kExact>& left) {
    const auto& stage = memory.stages[next.place];
#pragma unroll
    for (int unit = 0; unit < 4; ++unit)
      make_left(left, unit / 2, unit % 2, stage.phases, stage.bases[warp * 2 + unit / 2]);
  };
  const auto await = [&] {
    wait(memory.copied[next.place], next.parity);
    wait(memory.made[next.place], next.parity);
  };
  Left<kExact> left[2];
  await();
  make(left[0]);
  float sum[2][kTiles][4];
  int before = 0;  // the place of the step before
  for (int begin = 0; begin < work.steps; begin += kStepsOfGroup) {
    const float scale = scales[begin / kStepsOfGroup];
#pragma unroll 2
    for (int i = 0; i < kStepsOfGroup; ++i) {
      const int step = begin + i;
      const std::uint32_t right = shared_address(memory.stages[now.place].right);
      const std::uint64_t high = describe(right), low = describe(right + kRows * kStep * 2);
      const Left<kExact>& factor = left[i % 2];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        fence_registers();
        multiply_add(sum[m], factor.high[m], high, i > 0);
        if constexpr (kExact) {
          multiply_add(sum[m], factor.low[m], high, true);
          multiply_add(sum[m], factor.high[m], low, true);
        }
      }
      products_end();
      next.advance(1);
      if (step + 1 < work.steps) await();
      products_wait<1>();  // the step before, whose factor is overwritten now
      if (step > 0 && lane == 0) arrive(memory.read[before]);
      __syncwarp();
      make(left[(i + 1) % 2]);
      before = now.place;
      now = next;
    }
    products_wait<0>();
    for (int m = 0; m < 2; ++m) {
      changed(sum[m]);
      add_group(sum[m], scale, sums + m * kTiles * 32);
    }
  }
  for (int i = 0; i < 2 * kTiles; ++i) all_sums[i * 32] = sums[i * 32];
}
#endif

template <bool kExact, int kRows>
__global__ void __launch_bounds__(kThreadsOfBlock, 1) hopper_kernel(DirectGrid grid, DirectTiles tiles, Work work) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) unsigned char raw[];
  auto& memory = *reinterpret_cast<Memory<kExact, kRows>*>(raw);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    for (int i = 0; i < memory.kCount; ++i) {
      barrier_start(memory.copied[i], 1);
      barrier_start(memory.made[i], 1);
      barrier_start(memory.read[i], kWarps);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  if (thread < kGroups) memory.positions[thread] = group_position(grid, tiles, thread);
  __syncthreads();
  if (thread < kProducers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    if (thread >= 32)
      make_bases(work, memory, thread / 32 - 1, thread % 32);
    else if (thread == 0)
      copy_factors(work, memory);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
    consume(tiles, work, memory, thread - kProducers);
  }
#endif
}

template <bool kExact, int kRows>
void multiply(const DirectGrid& grid, const DirectTiles& tiles, const Work& work, cudaStream_t stream) {
  constexpr int kBytes = sizeof(Memory<kExact, kRows>);
  check(cudaFuncSetAttribute(hopper_kernel<kExact, kRows>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "asking for shared memory");
  const dim3 blocks(static_cast<unsigned>(tiles.tiles), static_cast<unsigned>(tiles.blocks),
                    static_cast<unsigned>(grid.coils));
  hopper_kernel<kExact, kRows><<<blocks, kThreadsOfBlock, kBytes, stream>>>(grid, tiles, work);
  check_launch("direct transform");
}

}  // namespace

bool hopper(Context& context) {
  static const char* const wish = std::getenv("ECHOTRAIN_HOPPER");
  if (wish != nullptr && std::string_view(wish) == "off") return false;
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, context.device()), "asking what it can do");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, context.device()), "asking what it can do");
  return major == 9 && minor == 0;
}

void multiply_on_hopper(const DirectGrid& grid, const DirectTiles& tiles, const Work& work, cudaStream_t stream) {
  const bool exact = grid.precision == Precision::exact;
  const auto product_of = tiles.rows == 64 ? (exact ? multiply<true, 64> : multiply<false, 64>)
                                           : (exact ? multiply<true, 128> : multiply<false, 128>);
  product_of(grid, tiles, work, stream);
}

}  // namespace echotrain::numerics::cuda
