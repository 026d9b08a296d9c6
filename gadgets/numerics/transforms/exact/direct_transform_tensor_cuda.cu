// The direct transform's matrix product on the tensor cores: its left factor, d exp(2 pi i (ky y + kz z)), is made in
// the registers that multiply it and is never in memory; its right factor, the cosines and sines along x, which all
// blocks share, is made once for some samples at a time. Factors are rounded to fp16. In `exact`, a second fp16 number
// holds the rounding error, and there are three products; `fast` drops it. The tensor cores round towards zero, so
// their sums are taken after each group of samples.
#include <algorithm>

#include "gadgets/numerics/core/reduce/reductions_cuda.cuh"
#include "gadgets/numerics/transforms/exact/direct_transform_product.cuh"

namespace echotrain::numerics::cuda {
namespace {

// Limits of the factors along x that are kept at a time: samples, and bytes, most of which stay in the second-level
// cache.
constexpr std::int64_t kMostSamples = 256 * kDirectGroup, kMostBytes = 64 << 20;

// --- factors made in advance

/// A thread per row and half step.
template <bool kExact>
__global__ void right_kernel(DirectGrid grid, DirectTiles tiles, const double* coordinates, std::int64_t n,
                             std::int64_t steps, std::int64_t capacity, unsigned char* right) {
  const std::int64_t rows = tiles.rows, all_rows = rows * tiles.blocks, cosines = (grid.nx + 1) / 2;
  const bool even = grid.nx % 2 == 0;
  ECHOTRAIN_GRID_STRIDE(i, all_rows * steps * 2) {
    const std::int64_t row = i % all_rows, half = i / all_rows;
    const bool sine = row >= cosines;
    const std::int64_t position = sine ? row - cosines + (even ? 0 : 1) : row;
    std::uint32_t high[4], low[4];
    for (int pair = 0; pair < 4; ++pair) {
      float value[2];
      for (int j = 0; j < 2; ++j) {
        const std::int64_t s = half * 8 + 2 * pair + j;
        const double k = s < n ? coordinates[s * grid.dims] : 0.0;
        const float2 e = wave(top_of(turns(k) * position + (even ? turns(k / 2) : 0)));
        value[j] = row >= grid.nx ? 0.0f : sine ? e.y : e.x;
      }
      split(value[0], value[1], high[pair], low[pair]);
    }
    const std::int64_t in_block = row % rows;
    auto* to = reinterpret_cast<uint4*>(right + ((row / rows) * capacity + half / 2) *
                                                    right_bytes(kExact, static_cast<int>(rows))) +
               (in_block / 8 * 2 + half % 2) * 8 + in_block % 8;
    to[0] = make_uint4(high[0], high[1], high[2], high[3]);
    if (kExact) to[rows * 2] = make_uint4(low[0], low[1], low[2], low[3]);
  }
}

/// The nearest multiple of 2^-32 turns, and the rest in 2^-48 turns.
__device__ int2 in_two(std::int64_t t) {
  const auto turn = static_cast<std::uint64_t>(t);
  const auto rest = static_cast<std::int32_t>(static_cast<std::uint32_t>(turn));
  return make_int2(static_cast<int>((turn + 0x80000000u) >> 32), rest >> 16);
}

__global__ void phases_kernel(int dims, const double* coordinates, std::int64_t n, std::int64_t steps,
                              StepPhases* phases) {
  ECHOTRAIN_GRID_STRIDE(i, steps * kStep * kGroupColumns) {
    const std::int64_t j = i % kGroupColumns, s = i / kGroupColumns;
    StepPhases& to = phases[s / kStep];
    const std::int64_t ky = s < n ? turns(coordinates[s * dims + 1]) : 0;
    to.near[s % kStep / 8][j][s % 8] = wave(top_of(ky * j));
    if (j == 0) {
      const int2 y = in_two(ky), z = in_two(s < n && dims > 2 ? turns(coordinates[s * dims + 2]) : 0);
      to.far[s % kStep] = make_int4(y.x, y.y, z.x, z.y);
    }
  }
}

/// Scales the samples by a power of two, so that fp16 holds them; one block per group of samples and coil.
__global__ void __launch_bounds__(kDirectGroup) data_kernel(const float2* samples, std::int64_t n, std::int64_t coils,
                                                            std::int64_t capacity, StepData* data, float* scales) {
  const std::int64_t coil = blockIdx.y, s = static_cast<std::int64_t>(blockIdx.x) * kDirectGroup + threadIdx.x;
  const float2 d = s < n ? samples[s * coils + coil] : make_float2(0.0f, 0.0f);
  __shared__ float most;
  const Largest largest = block_join<kDirectGroup>(Largest{fmaxf(fabsf(d.x), fabsf(d.y))});
  if (threadIdx.x == 0) most = largest.most;
  __syncthreads();
  // fp16 holds up to 2^16; the range below the largest sample serves the low parts of small ones.
  constexpr int kTop = 14, kFarthest = 120;
  int exponent = 0;
  if (most > 0 && isfinite(most)) frexpf(most, &exponent);
  const int scale = max(-kFarthest, min(kFarthest, kTop - exponent));
  const float factor = ldexpf(1.0f, scale);
  data[coil * capacity + s / kStep].d[s % kStep] = make_float2(d.x * factor, d.y * factor);
  if (threadIdx.x == 0) scales[coil * (capacity / kStepsOfGroup) + blockIdx.x] = ldexpf(1.0f, -scale);
}

// --- the product

__device__ void copy_16(void* to, const void* from, int i) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to) + i * 16),
               "l"(static_cast<const uint4*>(from) + i)
               : "memory");
}
__device__ void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ void load_tiles(std::uint32_t (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ std::int64_t group_of_block(int i) { return static_cast<std::int64_t>(blockIdx.x) * kGroups + i; }

/// A block's shared memory, and all that its threads do except multiplying. They work in rounds of kRound steps, whose
/// factors are in one of kStages places.
template <bool kExact, int kRows, int kRound, int kStages>
class Block {
 public:
  static constexpr int kTiles = kRows / 8, kRightBytes = right_bytes(kExact, kRows);
  /// Rounds ahead whose factors a round needs besides its own, because bases are made at least two steps ahead.
  static constexpr int kAhead = kRound == 1 ? 2 : 1;
  struct Stage {
    alignas(128) unsigned char right[kRound][kRightBytes];
    StepPhases phases[kRound];
    StepData data[kRound];
  };
  struct Memory {
    Stage stages[kStages];
    float2 bases[2 * kRound][kGroups][kStep];  // d exp(2 pi i (ky y + kz z)) at each group's first column
    float4 sums[kWarps][2][kTiles][32];
  };

  __device__ Block(const DirectGrid& grid, const DirectTiles& tiles, const Work& work, Memory& memory)
      : memory_(memory),
        steps(work.steps),
        thread_(static_cast<int>(threadIdx.x)),
        right_(work.right + blockIdx.y * work.capacity * kRightBytes),
        phases_(work.phases),
        data_(work.data + blockIdx.z * work.capacity),
        scales_(work.scales + blockIdx.z * (work.capacity / kStepsOfGroup)),
        position_(group_position(grid, tiles, group_of_block(thread_ / kStep))),
        all_sums_(lane_sums<kRows>(tiles, work, group_of_block(thread_ / 32 * 2), thread_ % 32)),
        sums_(&memory.sums[thread_ / 32][0][0][thread_ % 32]) {
    for (int i = 0; i < 2 * kTiles; ++i) sums_[i * 32] = all_sums_[i * 32];
  }
  __device__ void end() {
    for (int i = 0; i < 2 * kTiles; ++i) all_sums_[i * 32] = sums_[i * 32];
  }

  /// Starts copies of a round's factors; call it for each round in turn.
  __device__ void fetch(int round) {
    const int step = round * kRound;
    if (step < steps) {
      Stage& to = memory_.stages[round % kStages];
      constexpr int kRight = sizeof(to.right) / 16, kPhases = sizeof(to.phases) / 16, kData = sizeof(to.data) / 16;
      static_assert(kPhases + kData <= kBlockThreads && (kRight < kBlockThreads || kRight % kBlockThreads == 0));
      const unsigned char* right = right_ + static_cast<std::int64_t>(step) * kRightBytes;
#pragma unroll
      for (int i = 0; i < kRight; i += kBlockThreads)
        if (kRight >= kBlockThreads || thread_ < kRight) copy_16(to.right, right, i + thread_);
      if (thread_ < kPhases)
        copy_16(to.phases, phases_ + step, thread_);
      else if (thread_ < kPhases + kData)
        copy_16(to.data, data_ + step, thread_ - kPhases);
    }
    copies_end();  // also where there is nothing to copy, so that groups of copies can be counted
  }

  /// The thread's part of the bases of `count` steps: one group of columns, one sample. Its warp needs no others.
  template <int kCount>
  __device__ void make_bases(int step) {
    if (step >= steps) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      memory_.bases[(step + i) % (2 * kRound)][thread_ / kStep][thread_ % kStep] =
          make_base<kExact>(phases(step + i), stage(step + i).data[(step + i) % kRound], thread_ % kStep, position_);
  }

  __device__ void make_left(Left<kExact>& left, int step) const {
#pragma unroll
    for (int unit = 0; unit < 4; ++unit) make_left(left, step, unit / 2, unit % 2);
  }
  /// One half of a step's left factor for one m-tile.
  __device__ void make_left(Left<kExact>& left, int step, int tile, int half) const {
    cuda::make_left(left, tile, half, phases(step), memory_.bases[step % (2 * kRound)][thread_ / 32 * 2 + tile]);
  }

  __device__ float scale_of_group(int step) const { return scales_[step / kStepsOfGroup]; }
  /// Adds a group's sums of one m-tile to the rest.
  __device__ void add(const float (&sum)[kTiles][4], int tile, float scale) {
    add_group(sum, scale, sums_ + tile * kTiles * 32);
  }

  /// The right factor of a step: its address in shared memory.
  __device__ std::uint32_t right(int step) const { return shared_address(stage(step).right[step % kRound]); }

 private:
  __device__ const Stage& stage(int step) const { return memory_.stages[step / kRound % kStages]; }
  __device__ const StepPhases& phases(int step) const { return stage(step).phases[step % kRound]; }
  Memory& memory_;

 public:
  const int steps;

 private:
  int thread_;
  const unsigned char* right_;
  const StepPhases* phases_;
  const StepData* data_;
  const float* scales_;
  int2 position_;
  float4* all_sums_;
  float4* sums_;  // no other thread touches them
};

/// The steps of a round. Narrow blocks also fit the smaller shared memory of 8.6 and 8.9.
constexpr int steps_of_round(int rows) { return rows == 64 ? 1 : 2; }
template <bool kExact, int kRows>
using TensorBlock = Block<kExact, kRows, steps_of_round(kRows), 4>;

template <bool kExact, int kRows>
__global__ void __launch_bounds__(kBlockThreads, 1) multiply_kernel(DirectGrid grid, DirectTiles tiles, Work work) {
  using ThisBlock = TensorBlock<kExact, kRows>;
  constexpr int kRound = steps_of_round(kRows), kStages = 4, kTiles = kRows / 8;
  extern __shared__ __align__(128) unsigned char raw[];
  ThisBlock block(grid, tiles, work, *reinterpret_cast<typename ThisBlock::Memory*>(raw));
  for (int i = 0; i < kStages - 1; ++i) block.fetch(i);
  copies_wait<0>();
  __syncthreads();
  block.template make_bases<2>(0);
  __syncwarp();
  Left<kExact> left, next;
  block.make_left(left, 0);

  for (int begin = 0; begin < block.steps; begin += kStepsOfGroup) {
    float sum[2][kTiles][4] = {};
    const float scale = block.scale_of_group(begin);
#pragma unroll kRound
    for (int i = 0; i < kStepsOfGroup; ++i) {
      const int step = begin + i;
      if (i % kRound == 0) {
        copies_wait<kStages - 2 - ThisBlock::kAhead>();  // the data for the next bases have come
        __syncthreads();
        block.fetch(step / kRound + kStages - 1);
        block.template make_bases<kRound>(step + 2);
      }
      const std::uint32_t tile_address = block.right(step) + threadIdx.x % 32 * 16;
#pragma unroll
      for (int four = 0; four < kTiles / 4; ++four) {
        std::uint32_t b[2][4], c[2][4];
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          load_tiles(b[pair], tile_address + (four * 2 + pair) * 512);
          if (kExact) load_tiles(c[pair], tile_address + (four * 2 + pair) * 512 + kRows * kStep * 2);
        }
        const auto multiply = [&](const auto& with, const std::uint32_t(&tiles_of)[2][4]) {
#pragma unroll
          for (int tile = 0; tile < 4; ++tile)
#pragma unroll
            for (int m = 0; m < 2; ++m)
              multiply_add(sum[m][four * 4 + tile], with[m], tiles_of[tile / 2][tile % 2 * 2],
                           tiles_of[tile / 2][tile % 2 * 2 + 1]);
        };
        multiply(left.high, b);
        if constexpr (kExact) {
          multiply(left.low, b);
          multiply(left.high, c);
        }
#pragma unroll
        for (int unit = four * 16 / kTiles; unit < (four + 1) * 16 / kTiles; ++unit)
          block.make_left(next, step + 1, unit / 2, unit % 2);
      }
      left = next;
      __syncwarp();
    }
    for (int m = 0; m < 2; ++m) block.add(sum[m], m, scale);
  }
  block.end();
}

// --- launches

std::int64_t up_to_multiple(std::int64_t n, std::int64_t of) { return (n + of - 1) / of * of; }

template <bool kExact, int kRows>
void multiply(const DirectGrid& grid, const DirectTiles& tiles, const Work& work, cudaStream_t stream) {
  constexpr int kBytes = sizeof(typename TensorBlock<kExact, kRows>::Memory);
  check(cudaFuncSetAttribute(multiply_kernel<kExact, kRows>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "asking for shared memory");
  const dim3 blocks(static_cast<unsigned>(tiles.tiles), static_cast<unsigned>(tiles.blocks),
                    static_cast<unsigned>(grid.coils));
  multiply_kernel<kExact, kRows><<<blocks, kBlockThreads, kBytes, stream>>>(grid, tiles, work);
  check_launch("direct transform");
}

}  // namespace

DirectTiles direct_tiles(Context& context, const DirectGrid& grid) {
  DirectTiles tiles;
  if (grid.nz == 1)
    tiles.y0 = grid.first_column;
  else
    tiles.z0 = grid.first_column / grid.ny;
  const std::int64_t lines = grid.nz == 1 ? grid.columns() : grid.ny;
  tiles.per_row = up_to_multiple(lines, kGroupColumns) / kGroupColumns;
  const std::int64_t last = grid.first_column + grid.columns() - 1;
  tiles.groups = (last / grid.ny - tiles.z0 + 1) * tiles.per_row;
  tiles.tiles = up_to_multiple(tiles.groups, kGroups) / kGroups;
  // Narrow tiles are used where wide ones would be much emptier, or do not fit.
  int shared = 0;
  check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, context.device()),
        "asking for the size of shared memory");
  const std::int64_t narrow = up_to_multiple(grid.nx, 64), wide = up_to_multiple(grid.nx, 128);
  const bool fits = static_cast<std::size_t>(shared) >= sizeof(TensorBlock<true, 128>::Memory);
  tiles.rows = !fits || narrow * 5 < wide * 4 ? 64 : 128;
  tiles.blocks = up_to_multiple(grid.nx, tiles.rows) / tiles.rows;
  return tiles;
}

std::int64_t direct_sums(Context& context, const DirectGrid& grid) {
  return grid.coils * direct_tiles(context, grid).floats();
}

void direct_add(Context& context, const DirectGrid& grid, const double* coordinates, const cfloat* samples,
                std::int64_t n, float* sums) {
  const cudaStream_t stream = stream_of(context);
  const DirectTiles tiles = direct_tiles(context, grid);
  const bool exact = grid.precision == Precision::exact, on_hopper = hopper(context);
  const std::int64_t bytes = tiles.blocks * right_bytes(exact, tiles.rows);  // bytes of a step
  const std::int64_t chunk =
      std::clamp(kMostBytes / (bytes * kStepsOfGroup) * kDirectGroup, kDirectGroup, kMostSamples);
  const std::int64_t capacity = up_to_multiple(std::min(n, chunk), kDirectGroup) / kStep;
  const auto as_floats = [](std::int64_t b) { return (b + 3) / 4; };
  Array<float> right = context.allocate<float>({as_floats(capacity * bytes)}),
               phases = context.allocate<float>({as_floats(capacity * static_cast<std::int64_t>(sizeof(StepPhases)))}),
               data = context.allocate<float>({grid.coils, capacity * kStep * 2}),
               scales = context.allocate<float>({grid.coils, capacity / kStepsOfGroup});
  Work work;
  work.right = reinterpret_cast<const unsigned char*>(right.data());
  work.phases = reinterpret_cast<const StepPhases*>(phases.data());
  work.data = reinterpret_cast<const StepData*>(data.data());
  work.scales = scales.data();
  work.capacity = capacity;
  work.sums = sums;
  LaunchThrottle& pace = context.cache<LaunchThrottle>();
  for (std::int64_t at = 0; at < n; at += chunk, pace.step(context)) {
    const std::int64_t count = std::min(chunk, n - at), groups = up_to_multiple(count, kDirectGroup) / kDirectGroup;
    work.steps = static_cast<int>(groups * kStepsOfGroup);
    const double* k = coordinates + at * grid.dims;
    const auto right_of = exact ? right_kernel<true> : right_kernel<false>;
    right_of<<<blocks_for(tiles.rows * tiles.blocks * work.steps * 2), kThreads, 0, stream>>>(
        grid, tiles, k, count, work.steps, capacity, reinterpret_cast<unsigned char*>(right.data()));
    check_launch("direct transform's cosines");
    phases_kernel<<<blocks_for(work.steps * kStep * kGroupColumns), kThreads, 0, stream>>>(
        grid.dims, k, count, work.steps, reinterpret_cast<StepPhases*>(phases.data()));
    check_launch("direct transform's phases");
    data_kernel<<<dim3(static_cast<unsigned>(groups), static_cast<unsigned>(grid.coils)), kDirectGroup, 0, stream>>>(
        device_view(samples + at * grid.coils), count, grid.coils, capacity, reinterpret_cast<StepData*>(data.data()),
        scales.data());
    check_launch("direct transform's data");
    const auto product_of = tiles.rows == 64 ? (exact ? multiply<true, 64> : multiply<false, 64>)
                                             : (exact ? multiply<true, 128> : multiply<false, 128>);
    if (on_hopper)
      multiply_on_hopper(context, grid, tiles, work);
    else
      product_of(grid, tiles, work, stream);
  }
}

}  // namespace echotrain::numerics::cuda
