// The direct transform's matrix product on the tensor cores: its left factor, d exp(2 pi i (ky y + kz z)), is made in
// the registers that multiply it and is never in memory; its right factor, the cosines and sines along x, which all
// blocks share, is made once for some samples at a time. Factors are rounded to fp16; what that loses is a second fp16
// number, and the products are three (exact), or it is let go (fast). Sums are taken from the tensor cores, which round
// towards zero, after each group of samples.
#include <cuda_fp16.h>

#include <algorithm>

#include "gadgets/numerics/cuda_support.cuh"
#include "gadgets/numerics/direct_transform_tiles.cuh"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::int64_t kChunk = 256 * kDirectGroup;  // samples whose factors along x are kept at a time
constexpr int kStep = 16;                            // samples of one product of tiles
constexpr int kStepsOfGroup = kDirectGroup / kStep;
constexpr int kBlockThreads = kWarps * 32;
static_assert(kBlockThreads == kGroups * kStep && kBlockThreads == kDirectGroup);

/// What a step needs of each sample but its data: exp(2 pi i ky j), j = 0 .. 7, and how phases go on along y and z.
struct alignas(16) StepPhases {
  float2 near[2][kGroupColumns][8];  // [half of the step, j, sample of the half]
  longlong2 far[kStep];              // ky, kz in turns
};
struct alignas(16) StepData {
  float2 d[kStep];
};

/// Bytes of the right factor of a step and `rows` rows: fp16 tiles of 8 rows x 8 samples, high parts before low parts.
constexpr int right_bytes(bool exact, int rows) { return rows * kStep * 2 * (exact ? 2 : 1); }

struct Work {
  const unsigned char* right;  // [block of rows, step, right_bytes]
  const StepPhases* phases;    // [step]
  const StepData* data;        // [coil, step]
  const float* scales;         // [coil, group]: what sums are multiplied by
  std::int64_t steps;
  std::int64_t capacity;  // steps that the arrays have room for
  float* sums;
};

__device__ void split(float a, float b, std::uint32_t& high, std::uint32_t& low) {
  const half2 h = __floats2half2_rn(a, b);
  const float2 back = __half22float2(h);
  const half2 l = __floats2half2_rn(a - back.x, b - back.y);
  high = reinterpret_cast<const std::uint32_t&>(h);
  low = reinterpret_cast<const std::uint32_t&>(l);
}

// --- what is made before
// ----------------------------------------------------------------------------------------------

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
        const float2 e = wave(turns(k) * position + (even ? turns(k / 2) : 0));
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

__global__ void phases_kernel(int dims, const double* coordinates, std::int64_t n, std::int64_t steps,
                              StepPhases* phases) {
  ECHOTRAIN_GRID_STRIDE(i, steps * kStep * kGroupColumns) {
    const std::int64_t j = i % kGroupColumns, s = i / kGroupColumns;
    StepPhases& to = phases[s / kStep];
    const std::int64_t ky = s < n ? turns(coordinates[s * dims + 1]) : 0;
    to.near[s % kStep / 8][j][s % 8] = wave(ky * j);
    if (j == 0) to.far[s % kStep] = make_longlong2(ky, s < n && dims > 2 ? turns(coordinates[s * dims + 2]) : 0);
  }
}

/// A block per group of samples and coil: scales them by a power of two, so that fp16 holds them.
__global__ void __launch_bounds__(kDirectGroup) data_kernel(const float2* samples, std::int64_t n, std::int64_t coils,
                                                            std::int64_t capacity, StepData* data, float* scales) {
  __shared__ float largest[kDirectGroup / 32];
  const std::int64_t coil = blockIdx.y, s = static_cast<std::int64_t>(blockIdx.x) * kDirectGroup + threadIdx.x;
  const float2 d = s < n ? samples[s * coils + coil] : make_float2(0.0f, 0.0f);
  float most = fmaxf(fabsf(d.x), fabsf(d.y));
  for (int mask = 16; mask > 0; mask /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, mask));
  if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = most;
  __syncthreads();
  for (const float other : largest) most = fmaxf(most, other);
  // fp16 holds up to 2^16; what is left under the largest is for the low parts of small samples.
  constexpr int kTop = 14, kFarthest = 120;
  int exponent = 0;
  if (most > 0 && isfinite(most)) frexpf(most, &exponent);
  const int scale = max(-kFarthest, min(kFarthest, kTop - exponent));
  const float factor = ldexpf(1.0f, scale);
  data[coil * capacity + s / kStep].d[s % kStep] = make_float2(d.x * factor, d.y * factor);
  if (threadIdx.x == 0) scales[coil * (capacity / kStepsOfGroup) + blockIdx.x] = ldexpf(1.0f, -scale);
}

// --- the product
// ------------------------------------------------------------------------------------------------------

__device__ std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}
__device__ void copy_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
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

/// A lane's part of the left factor of a step: of each of a warp's m-tiles the real and the imaginary part of its
/// column for two neighbouring samples of each half.
template <bool kExact>
struct Left {
  std::uint32_t high[2][4], low[2][kExact ? 4 : 1];
};

template <bool kExact, int kRows>
struct Shape {
  static constexpr int kTiles = kRows / 8, kStages = kRows == 64 ? 4 : 6;
  struct Stage {
    alignas(128) unsigned char right[right_bytes(kExact, kRows)];
    StepPhases phases;
    StepData data;
  };
  struct Memory {
    Stage stages[kStages];
    float2 bases[2][kGroups][kStep];  // d exp(2 pi i (ky y + kz z)) at each group's first column
    float4 sums[kWarps][2][kTiles][32];
  };
};

template <bool kExact, int kRows>
__global__ void __launch_bounds__(kBlockThreads, 1) multiply_kernel(DirectGrid grid, DirectTiles tiles, Work work) {
  using S = Shape<kExact, kRows>;
  constexpr int kTiles = S::kTiles, kStages = S::kStages;
  extern __shared__ __align__(128) unsigned char raw[];
  auto& memory = *reinterpret_cast<typename S::Memory*>(raw);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const std::int64_t coil = blockIdx.z, steps = work.steps;
  const unsigned char* right = work.right + blockIdx.y * work.capacity * right_bytes(kExact, kRows);
  const StepData* data = work.data + coil * work.capacity;
  const float* scales = work.scales + coil * (work.capacity / kStepsOfGroup);
  auto* all_sums = reinterpret_cast<float4*>(work.sums) +
                   ((coil * tiles.blocks + blockIdx.y) * tiles.tiles + blockIdx.x) * (sizeof(memory.sums) / 16) +
                   warp * 2 * kTiles * 32 + lane;
  float4* sums = &memory.sums[warp][0][0][lane];  // no other thread touches them

  // The thread's part in making bases: one group, one sample of each step.
  const int base_group = thread / kStep, base_sample = thread % kStep;
  const std::int64_t group = static_cast<std::int64_t>(blockIdx.x) * kGroups + base_group;
  const std::int64_t base_y = tiles.y0 + group % tiles.per_row * kGroupColumns - grid.ny / 2,
                     base_z = tiles.z0 + group / tiles.per_row - grid.nz / 2;

  const auto fetch = [&](std::int64_t step) {
    if (step < steps) {
      typename S::Stage& stage = memory.stages[step % kStages];
      constexpr int kRight = right_bytes(kExact, kRows) / 16, kPhases = sizeof(StepPhases) / 16,
                    kData = sizeof(StepData) / 16;
      const auto* from = reinterpret_cast<const uint4*>(right + step * right_bytes(kExact, kRows));
      for (int i = thread; i < kRight; i += kBlockThreads) copy_16(reinterpret_cast<uint4*>(stage.right) + i, from + i);
      if (thread < kPhases)
        copy_16(reinterpret_cast<uint4*>(&stage.phases) + thread,
                reinterpret_cast<const uint4*>(work.phases + step) + thread);
      else if (thread < kPhases + kData)
        copy_16(reinterpret_cast<uint4*>(&stage.data) + thread - kPhases,
                reinterpret_cast<const uint4*>(data + step) + thread - kPhases);
    }
    copies_end();  // also where there is nothing, so that they can be counted
  };
  const auto make_bases = [&](std::int64_t step) {
    if (step >= steps) return;
    const typename S::Stage& stage = memory.stages[step % kStages];
    const longlong2 far = stage.phases.far[base_sample];
    const std::int64_t phase = far.x * base_y + far.y * base_z;
    memory.bases[step % 2][base_group][base_sample] =
        product(stage.data.d[base_sample], kExact ? wave(phase) : quick_wave(phase));
  };
  /// One half of the step for one m-tile.
  const auto make_left = [&](Left<kExact>& left, std::int64_t step, int tile, int half) {
    const StepPhases& phases = memory.stages[step % kStages].phases;
    const float4 near = *reinterpret_cast<const float4*>(&phases.near[half][lane / 4][lane % 4 * 2]);
    const float4 base =
        *reinterpret_cast<const float4*>(&memory.bases[step % 2][warp * 2 + tile][half * 8 + lane % 4 * 2]);
    const float2 a = product(make_float2(near.x, near.y), make_float2(base.x, base.y)),
                 b = product(make_float2(near.z, near.w), make_float2(base.z, base.w));
    if constexpr (kExact) {
      split(a.x, b.x, left.high[tile][2 * half], left.low[tile][2 * half]);
      split(a.y, b.y, left.high[tile][2 * half + 1], left.low[tile][2 * half + 1]);
    } else {
      const half2 re = __floats2half2_rn(a.x, b.x), im = __floats2half2_rn(a.y, b.y);
      left.high[tile][2 * half] = reinterpret_cast<const std::uint32_t&>(re);
      left.high[tile][2 * half + 1] = reinterpret_cast<const std::uint32_t&>(im);
    }
  };

  for (int i = 0; i < kStages - 1; ++i) fetch(i);
  for (int i = 0; i < 2 * kTiles; ++i) sums[i * 32] = all_sums[i * 32];
  copies_wait<kStages - 3>();
  __syncthreads();
  make_bases(0);
  make_bases(1);
  __syncthreads();
  Left<kExact> left, next;
  for (int unit = 0; unit < 4; ++unit) make_left(left, 0, unit / 2, unit % 2);

  for (std::int64_t begin = 0; begin < steps; begin += kStepsOfGroup) {
    float sum[2][kTiles][4] = {};
    const std::int64_t end = min(steps, begin + kStepsOfGroup);
    for (std::int64_t step = begin; step < end; ++step) {
      copies_wait<kStages - 4>();  // what step + 2 needs is there
      __syncthreads();
      fetch(step + kStages - 1);
      make_bases(step + 2);
      const std::uint32_t tile_address = shared_address(memory.stages[step % kStages].right) + lane * 16;
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
          make_left(next, step + 1, unit / 2, unit % 2);
      }
      left = next;
    }
    const float scale = scales[begin / kStepsOfGroup];
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      float4 total = sums[i * 32];
      const float(&part)[4] = sum[i / kTiles][i % kTiles];
      total.x = fmaf(part[0], scale, total.x);
      total.y = fmaf(part[1], scale, total.y);
      total.z = fmaf(part[2], scale, total.z);
      total.w = fmaf(part[3], scale, total.w);
      sums[i * 32] = total;
    }
  }
  for (int i = 0; i < 2 * kTiles; ++i) all_sums[i * 32] = sums[i * 32];
}

// --- launches
// ---------------------------------------------------------------------------------------------------------

std::int64_t up_to_multiple(std::int64_t n, std::int64_t of) { return (n + of - 1) / of * of; }

template <bool kExact, int kRows>
void multiply(const DirectGrid& grid, const DirectTiles& tiles, const Work& work, cudaStream_t stream) {
  constexpr int kBytes = sizeof(typename Shape<kExact, kRows>::Memory);
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
  tiles.per_row = up_to_multiple(grid.ny - tiles.y0, kGroupColumns) / kGroupColumns;
  const std::int64_t last = grid.first_column + grid.columns() - 1;
  tiles.groups = (last / grid.ny - tiles.z0 + 1) * tiles.per_row;
  tiles.tiles = up_to_multiple(tiles.groups, kGroups) / kGroups;
  // Narrow tiles where wide ones would be much emptier, or do not fit.
  int shared = 0;
  check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, context.device()),
        "asking for the size of shared memory");
  const std::int64_t narrow = up_to_multiple(grid.nx, 64), wide = up_to_multiple(grid.nx, 128);
  const bool fits = static_cast<std::size_t>(shared) >= sizeof(Shape<true, 128>::Memory);
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
  const bool exact = grid.precision == Precision::exact;
  const std::int64_t capacity = up_to_multiple(std::min(n, kChunk), kDirectGroup) / kStep;
  const int bytes = right_bytes(exact, tiles.rows);
  const auto as_floats = [](std::int64_t b) { return (b + 3) / 4; };
  Array<float> right = context.allocate<float>({as_floats(tiles.blocks * capacity * bytes)}),
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
  for (std::int64_t at = 0; at < n; at += kChunk) {
    const std::int64_t count = std::min(kChunk, n - at), groups = up_to_multiple(count, kDirectGroup) / kDirectGroup;
    work.steps = groups * kStepsOfGroup;
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
    product_of(grid, tiles, work, stream);
  }
}

}  // namespace echotrain::numerics::cuda
