#include <algorithm>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/inverse/sparse/low_rank_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kBlockThreads = 128;
constexpr int kMostPairs = static_cast<int>(kMostLowRank) / 2;
constexpr int kMostSweeps = 24;
constexpr double kSmall = 1e-15;  // share of the trace below which an off-diagonal element counts as 0
constexpr std::int64_t kMostBlocks = 1024, kScratchBytes = 128 << 20;
static_assert(kMostPairs <= kBlockThreads);

__device__ double2 product(double2 a, double2 b) { return make_double2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
__device__ double2 mixed(double c, double2 a, double s, double2 b) {
  return make_double2(c * a.x + s * b.x, c * a.y + s * b.y);
}
__device__ double2 wide(float2 v) { return make_double2(v.x, v.y); }
__device__ double2 turned(double2 v) { return make_double2(v.x, -v.y); }  // the conjugate

/// The data of a thread block: a block of the series, and the matrix whose eigenvalues are computed.
struct LowRankScratch {
  float2* x;                ///< [frame, voxel]
  double2 *gram, *vectors;  ///< [n, n]
};

/// Rotations of one round: rows and columns p < 0 have none. The new column p is c times the old one minus s conj(e)
/// times q, the new column q is s times p plus c conj(e) times q.
struct Rotations {
  int p[kMostPairs], q[kMostPairs];
  double c[kMostPairs], s[kMostPairs];
  double2 e[kMostPairs];
};

/// Diagonalises the Hermitian matrix of n rows by Jacobi's rotations, as many at a time as do not meet (Golub and Van
/// Loan, "Matrix Computations", 4th ed., 8.5). vectors: the identity, afterwards the eigenvectors.
__device__ void diagonalise(const LowRankScratch& w, int n, Rotations& r, int& turned_any) {
  const int players = n + n % 2, pairs = players / 2;
  double trace = 0;
  for (int i = 0; i < n; ++i) trace += w.gram[i * n + i].x;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    __syncthreads();
    if (threadIdx.x == 0) turned_any = 0;
    for (int round = 0; round < players - 1; ++round) {
      __syncthreads();
      const int k = static_cast<int>(threadIdx.x);
      if (k < pairs) {
        const int p = k == 0 ? players - 1 : (round + k) % (players - 1);
        const int q = (round + players - 1 - k) % (players - 1);
        r.p[k] = -1;
        if (p < n && q < n) {
          const double2 g = w.gram[p * n + q];
          const double size = hypot(g.x, g.y);
          if (size > kSmall * trace) {
            const double tau = (w.gram[q * n + q].x - w.gram[p * n + p].x) / (2 * size);
            const double t = (tau >= 0 ? 1 : -1) / (fabs(tau) + sqrt(1 + tau * tau));
            r.p[k] = p;
            r.q[k] = q;
            r.c[k] = 1 / sqrt(1 + t * t);
            r.s[k] = t * r.c[k];
            r.e[k] = make_double2(g.x / size, g.y / size);
            turned_any = 1;
          }
        }
      }
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < 2 * pairs * n; i += kBlockThreads) {
        const int pair = i / n % pairs, row = i % n, p = r.p[pair], q = r.q[pair];
        if (p < 0) continue;
        double2* m = i / n < pairs ? w.gram : w.vectors;
        const double2 a = m[row * n + p], b = product(turned(r.e[pair]), m[row * n + q]);
        m[row * n + p] = mixed(r.c[pair], a, -r.s[pair], b);
        m[row * n + q] = mixed(r.s[pair], a, r.c[pair], b);
      }
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < pairs * n; i += kBlockThreads) {
        const int pair = i / n, column = i % n, p = r.p[pair], q = r.q[pair];
        if (p < 0) continue;
        const double2 a = w.gram[p * n + column], b = product(r.e[pair], w.gram[q * n + column]);
        w.gram[p * n + column] = mixed(r.c[pair], a, -r.s[pair], b);
        w.gram[q * n + column] = mixed(r.s[pair], a, r.c[pair], b);
      }
    }
    __syncthreads();
    if (turned_any == 0) break;
  }
  __syncthreads();
}

/// A thread block takes blocks of the series one after the other.
__global__ void __launch_bounds__(kBlockThreads)
    low_rank_kernel(LowRankGrid g, double threshold, LowRankScratch all, std::int64_t x_size, std::int64_t n_most,
                    float2* series, double* sums) {
  __shared__ Rotations rotations;
  __shared__ double kept[kMostLowRank];
  __shared__ int turned_any;
  const std::int64_t frames = g.frames, frame_size = g.frame_size();
  const LowRankScratch w{all.x + blockIdx.x * x_size, all.gram + blockIdx.x * n_most * n_most,
                         all.vectors + blockIdx.x * n_most * n_most};
  for (std::int64_t number = blockIdx.x; number < g.count(); number += gridDim.x) {
    const LowRankBlock block = g.at(number);
    const std::int64_t voxels = block.voxels();
    const bool by_frames = frames <= voxels;
    const int n = static_cast<int>(by_frames ? frames : voxels);
    const std::int64_t m = by_frames ? voxels : frames;
    for (std::int64_t i = threadIdx.x; i < voxels * frames; i += kBlockThreads)
      w.x[i] = series[i / voxels * frame_size + g.voxel(block, i % voxels)];
    __syncthreads();
    // Sums X^H X, or X X^H: rows i and j of the smaller extent, over the larger one.
    const std::int64_t along = by_frames ? 1 : voxels, across = by_frames ? voxels : 1;
    for (int i = static_cast<int>(threadIdx.x); i < n * n; i += kBlockThreads) {
      const int row = i / n, column = i % n;
      double2 sum = make_double2(0, 0);
      for (std::int64_t k = 0; k < m; ++k) {
        const double2 a = wide(w.x[row * across + k * along]), b = wide(w.x[column * across + k * along]);
        const double2 term = by_frames ? product(turned(a), b) : product(a, turned(b));
        sum = make_double2(sum.x + term.x, sum.y + term.y);
      }
      w.gram[i] = sum;
      w.vectors[i] = make_double2(row == column ? 1 : 0, 0);
    }
    __syncthreads();
    diagonalise(w, n, rotations, turned_any);
    for (int i = static_cast<int>(threadIdx.x); i < n; i += kBlockThreads) {
      const double value = sqrt(fmax(0.0, w.gram[i * n + i].x));
      kept[i] = sums != nullptr ? value : value <= threshold ? 0 : 1 - threshold / value;
    }
    __syncthreads();
    if (sums != nullptr) {
      if (threadIdx.x == 0) {
        double sum = 0;
        for (int i = 0; i < n; ++i) sum += kept[i];
        sums[number] = sum;
      }
      __syncthreads();
      continue;
    }
    for (int i = static_cast<int>(threadIdx.x); i < n * n; i += kBlockThreads) {
      const int row = i / n, column = i % n;
      double2 sum = make_double2(0, 0);
      for (int k = 0; k < n; ++k) {
        const double2 term = product(w.vectors[row * n + k], turned(w.vectors[column * n + k]));
        sum = mixed(1, sum, kept[k], term);
      }
      w.gram[i] = sum;
    }
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < voxels * frames; i += kBlockThreads) {
      const std::int64_t frame = i / voxels, voxel = i % voxels;
      double2 sum = make_double2(0, 0);
      for (int k = 0; k < n; ++k) {
        const double2 term = by_frames ? product(wide(w.x[k * voxels + voxel]), w.gram[k * n + frame])
                                       : product(w.gram[voxel * n + k], wide(w.x[frame * voxels + k]));
        sum = make_double2(sum.x + term.x, sum.y + term.y);
      }
      series[frame * frame_size + g.voxel(block, voxel)] =
          make_float2(static_cast<float>(sum.x), static_cast<float>(sum.y));
    }
    __syncthreads();
  }
}

}  // namespace

void low_rank(Context& context, const LowRankGrid& grid, double threshold, cfloat* series, double* sums) {
  const std::int64_t voxels = grid.block[0] * grid.block[1] * grid.block[2], x_size = voxels * grid.frames;
  const std::int64_t n = std::min(voxels, grid.frames);
  const std::int64_t bytes =
      x_size * static_cast<std::int64_t>(sizeof(float2)) + 2 * n * n * static_cast<std::int64_t>(sizeof(double2));
  const std::int64_t blocks = std::max<std::int64_t>(1, std::min({grid.count(), kMostBlocks, kScratchBytes / bytes}));
  Array<cfloat> x = context.allocate<cfloat>({blocks, x_size});
  Array<cdouble> gram = context.allocate<cdouble>({blocks, n, n}), vectors = context.allocate<cdouble>({blocks, n, n});
  const LowRankScratch scratch{device_view(x.data()), reinterpret_cast<double2*>(gram.data()),
                               reinterpret_cast<double2*>(vectors.data())};
  low_rank_kernel<<<static_cast<unsigned>(blocks), kBlockThreads, 0, stream_of(context)>>>(
      grid, threshold, scratch, x_size, n, device_view(series), sums);
  check_launch("low_rank");
}

}  // namespace echotrain::numerics::cuda
