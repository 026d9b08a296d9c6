// Steps of the conjugate gradients on a volume of at most 64^3 voxels, in one kernel whose blocks all run at once and
// meet four times a step. As kernels of their own, the parts of a step begin and end for longer than they compute. A
// block keeps a part of the spectrum and 16 lines along z of x, r and p in its shared memory:
//   1. p = z + beta p, and its lines along z forward;   2. a plane's frequencies of one parity along x (plane_around);
//   3. lines along z back, q = A p, <p, q>;             4. x += alpha p, r -= alpha q, |r|^2 and <r, z>.
// Each block takes the sums of all to a copy of the state.
#include <type_traits>

#include "gadgets/numerics/toeplitz/toeplitz_planes_cuda.cuh"

namespace echotrain::numerics::cuda {
namespace {

using toeplitz_lines::for_each;
using toeplitz_lines::for_frequencies;
using toeplitz_lines::for_points;
using toeplitz_lines::forward;
using toeplitz_lines::GlobalFactors;
using toeplitz_lines::inverse;
using toeplitz_lines::kColumns;
using toeplitz_lines::Line;
using toeplitz_planes::fill_factors;
using toeplitz_planes::kNone;
using toeplitz_planes::Plane;
using toeplitz_planes::PlaneThread;
using toeplitz_planes::ResidentSpectrum;

constexpr int kPlane = 64;  // M of both axes of a plane

/// MZ: M along z.
template <int MZ>
struct Shared {
  using P = Plane<kPlane>;
  static constexpr int kOfVector = MZ * kColumns;
  /// Elements: what a plane needs, the spectrum, and x, r and p. Lines along z exchange in the plane's place.
  static constexpr int kSpectrumAt = P::kKeptAt, kVectorsAt = kSpectrumAt + P::kOfParity / 2,
                       kSize = kVectorsAt + 3 * kOfVector;
  static_assert(kOfVector <= P::kFactorsAt);
  static constexpr int kBytes = kSize * static_cast<int>(sizeof(float2));
};

/// The first `Threads` of a block wait for each other.
template <int Threads>
struct SomeSync {
  __device__ void operator()() const { asm volatile("bar.sync 1, %0;" ::"n"(Threads) : "memory"); }
};

/// All blocks wait for each other, and see what was written before. `rounds`: how often they have; the same for all.
__device__ void all_blocks_meet(std::int32_t* arrived, int& rounds) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const int all = (rounds + 1) * static_cast<int>(gridDim.x);
    __threadfence();
    atomicAdd(arrived, 1);
    while (*static_cast<volatile std::int32_t*>(arrived) < all) {
    }
    __threadfence();
  }
  ++rounds;
  __syncthreads();
}

/// The sum over a block's threads, in a fixed order; all get it.
template <int Threads>
__device__ double sum_of_block(double value) {
  __shared__ double of_warps[Threads / 32];
  const int thread = static_cast<int>(threadIdx.x);
  for (int apart = 16; apart > 0; apart /= 2) value += __shfl_down_sync(~0u, value, apart);
  __syncthreads();  // of the call before
  if (thread % 32 == 0) of_warps[thread / 32] = value;
  __syncthreads();
  value = 0;
  for (const double of_warp : of_warps) value += of_warp;
  return value;
}

template <int MZ, bool Full>
__global__ void __launch_bounds__(Plane<kPlane>::kThreadsOf, 2) steps_kernel(StepsPass s) {
  using L = Line<MZ>;
  using S = Shared<MZ>;
  using P = typename S::P;
  constexpr int kLineThreads = L::T * kColumns, kThreadsOf = P::kThreadsOf;
  static_assert(kLineThreads % 32 == 0 && kLineThreads <= kThreadsOf);
  extern __shared__ __align__(16) float2 memory[];
  __shared__ PcgState state;
  const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  if (thread == 0) state = *s.state;
  __syncthreads();
  if (state.status != PcgState::running || state.count >= s.length) {
    if (block == 0 && thread == 0) *s.runs = 0;
    return;
  }

  // Lines along z: 16 of them side by side.
  const int lines = s.ny * s.nx, tiles = (lines + kColumns - 1) / kColumns;
  const int t = thread / kColumns, column = thread % kColumns, line = block * kColumns + column;
  const bool has_lines = block < tiles && thread < kLineThreads, inside = line < lines;
  float2 *const x = memory + S::kVectorsAt + column, *const r = x + S::kOfVector, *const p = r + S::kOfVector;
  float2* const own = memory + column;
  const auto slot = [own](int k1, int b) -> float2& { return own[(k1 * L::R2 + b) * kColumns]; };
  const auto for_own = [&](const auto& work) {
    if (!has_lines || !inside) return;
    for_points<MZ>(t, [&](int j, int at) {
      if (at < s.nz) work(j, at * kColumns, at * lines + line);
    });
  };
  const auto preconditioned = [&](float2 v, int voxel) { return s.factor == nullptr ? v : s.factor[voxel] * v; };
  for_own([&](int, int at, int voxel) { x[at] = s.x[voxel], r[at] = s.r[voxel], p[at] = s.p[voxel]; });

  // A plane: one parity along x.
  const PlaneThread<kPlane, Full> planes(memory, s.ny, s.nx);
  const int plane = block / 2, odd = block % 2;
  const bool has_plane = plane < 2 * MZ;
  if (has_plane) {
    fill_factors<kPlane>(memory, s.roots);
    const auto* const from = reinterpret_cast<const float4*>(s.spectrum + std::int64_t{block} * P::kOfParity);
    for (int i = thread; i < P::kOfParity / 4; i += kThreadsOf)
      reinterpret_cast<float4*>(memory + S::kSpectrumAt)[i] = from[i];
  }
  ResidentSpectrum<kPlane> spectrum{reinterpret_cast<const float*>(memory + S::kSpectrumAt), planes.lane};
  const float2* const plane_from = s.before + plane * lines;
  float2* const plane_to = s.after + (odd * 2 * MZ + plane) * lines;

  // Sums: of blocks, then of all in their order.
  const auto give_sum = [&](double* sums, double value) {
    value = sum_of_block<kThreadsOf>(value);
    if (thread == 0 && block < tiles) sums[block] = value;
  };
  const auto take_sum = [&](const double* sums) {
    double value = 0;
    for (int i = thread; i < tiles; i += kThreadsOf) value += __ldcg(sums + i);
    return sum_of_block<kThreadsOf>(value);
  };
  double *const pq_sums = s.partial, *const rr_sums = pq_sums + tiles, *const rz_sums = rr_sums + tiles;

  int rounds = 0;
  for (int step = 0; step < s.steps; ++step) {
    if (has_lines) {
      const float beta = state.beta;
      float2 v[L::R1], w[L::G * L::R2];
      for_points<MZ>(t, [&](int j, int) { v[j] = make_float2(0.0f, 0.0f); });
      for_own([&](int j, int at, int voxel) {
        const float2 z = preconditioned(r[at], voxel), before = p[at];
        p[at] = v[j] = make_float2(z.x + beta * before.x, z.y + beta * before.y);
      });
      for_each<2>([&](auto parity) {
        forward<MZ, parity>(v, w, t, GlobalFactors{s.roots_z, MZ / 4}, slot, SomeSync<kLineThreads>());
        for_frequencies<MZ>(t, [&](int e, int k) {
          if (inside) s.before[(parity * MZ + k) * lines + line] = w[e];
        });
      });
    }
    all_blocks_meet(s.arrived, rounds);
    if (has_plane) {
      if (odd == 0)
        planes.template rows<kNone, false, 0>(nullptr, plane_from);
      else
        planes.template rows<kNone, false, 1>(nullptr, plane_from);
      __syncthreads();
      planes.columns(spectrum);
      __syncthreads();
      if (odd == 0)
        planes.template rows<0, false, kNone>(plane_to, nullptr);
      else
        planes.template rows<1, false, kNone>(plane_to, nullptr);
    }
    all_blocks_meet(s.arrived, rounds);
    float2 q[L::R1];
    double pq = 0;
    if (has_lines) {
      float2 w[L::G * L::R2];
      for_each<2>([&](auto parity) {
        for_frequencies<MZ>(t, [&](int e, int k) {
          const float2* const from = s.after + (parity * MZ + k) * lines + line;
          w[e] = inside ? from[0] + from[2 * MZ * lines] : make_float2(0.0f, 0.0f);
        });
        inverse<MZ, parity>(w, q, t, GlobalFactors{s.roots_z, MZ / 4}, slot, SomeSync<kLineThreads>());
      });
      for_own([&](int j, int at, int) {
        const float2 along = p[at];
        q[j].x += s.shift * along.x, q[j].y += s.shift * along.y;
        pq += static_cast<double>(along.x) * static_cast<double>(q[j].x) +
              static_cast<double>(along.y) * static_cast<double>(q[j].y);
      });
    }
    give_sum(pq_sums, pq);
    all_blocks_meet(s.arrived, rounds);
    pq = take_sum(pq_sums);
    if (thread == 0) state.step(pq);
    __syncthreads();
    if (state.moving == 0) break;
    const float alpha = state.alpha;
    double rr = 0, rz = 0;
    for_own([&](int j, int at, int voxel) {
      const float2 along = p[at];
      float2 v = x[at], rest = r[at];
      v.x += alpha * along.x, v.y += alpha * along.y;
      rest.x -= alpha * q[j].x, rest.y -= alpha * q[j].y;
      x[at] = v, r[at] = rest;
      const float2 z = preconditioned(rest, voxel);
      rr += static_cast<double>(rest.x) * static_cast<double>(rest.x) +
            static_cast<double>(rest.y) * static_cast<double>(rest.y);
      rz += static_cast<double>(rest.x) * static_cast<double>(z.x) +
            static_cast<double>(rest.y) * static_cast<double>(z.y);
    });
    give_sum(rr_sums, rr);
    if (s.factor != nullptr) give_sum(rz_sums, rz);
    all_blocks_meet(s.arrived, rounds);
    rr = take_sum(rr_sums);
    rz = s.factor != nullptr ? take_sum(rz_sums) : rr;
    if (thread == 0) {
      const std::int32_t count = state.count;
      double residual = 0;
      state.finish(rr, rz, s.tolerance, residual);
      if (block == 0 && state.count > count) s.residuals[count] = residual;
    }
    __syncthreads();
    if (state.status != PcgState::running || state.count >= s.length) break;
  }
  for_own([&](int, int at, int voxel) { s.x[voxel] = x[at], s.r[voxel] = r[at], s.p[voxel] = p[at]; });
  if (thread != 0) return;
  if (block == 0) {
    *s.state = state;
    *s.runs = state.status == PcgState::running && state.count < s.length ? 1 : 0;
  }
  // All blocks have left the last round once all get here.
  if (atomicAdd(s.arrived, 1) == (rounds + 1) * static_cast<int>(gridDim.x) - 1) *s.arrived = 0;
}

template <int MZ, bool Full>
bool launch_steps_kernel(const StepsPass& s, cudaStream_t stream) {
  const auto kernel = steps_kernel<MZ, Full>;
  constexpr int kThreadsOf = Plane<kPlane>::kThreadsOf, kBytes = Shared<MZ>::kBytes;
  constexpr const char* kWhat = "toeplitz_take_steps";
  const auto tiles = static_cast<int>(across_tiles(std::int64_t{s.ny} * s.nx));
  const int blocks = tiles > 4 * MZ ? tiles : 4 * MZ;
  int device = 0, cooperative = 0, multiprocessors = 0, at_once = 0, shared = 0;
  check(cudaGetDevice(&device), kWhat);
  check(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device), kWhat);
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), kWhat);
  check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), kWhat);
  if (cooperative == 0 || 2 * multiprocessors < blocks || shared < kBytes) return false;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), kWhat);
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&at_once, kernel, kThreadsOf, kBytes), kWhat);
  if (at_once * multiprocessors < blocks) return false;
  cudaLaunchAttribute together = {};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kThreadsOf);
  config.dynamicSmemBytes = kBytes;
  config.stream = stream;
  config.attrs = &together;
  config.numAttrs = 1;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, s);
  if (status == cudaErrorCooperativeLaunchTooLarge) {  // this process may use less of the device
    cudaGetLastError();
    return false;
  }
  check(status, kWhat);
  return true;
}

}  // namespace

template <int MZ>
StepsLaunch steps_launch() {
  return [](const StepsPass& s, cudaStream_t stream) {
    return (s.ny == kPlane && s.nx == kPlane ? launch_steps_kernel<MZ, true> : launch_steps_kernel<MZ, false>)(s,
                                                                                                               stream);
  };
}

#define ECHOTRAIN_INSTANTIATE(m) template StepsLaunch steps_launch<m>();
ECHOTRAIN_TOEPLITZ_STEPS(ECHOTRAIN_INSTANTIATE)
#undef ECHOTRAIN_INSTANTIATE

}  // namespace echotrain::numerics::cuda
