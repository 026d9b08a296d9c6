#include <algorithm>
#include <cfloat>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/dense/complex_tiles_cuda.cuh"
#include "gadgets/numerics/core/dense/hermitian_batch_cuda.cuh"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kBlock = 32;        // columns that are factored together
constexpr int kRowsBackward = 8;  // right-hand sides of a block of threads
constexpr int kWarps = kTileThreads / kBlock;

using Systems = HermitianBatch::View;
using SmallTile = ComplexTile<2>;
static_assert(SmallTile::kSide == kBlock);

std::int64_t in_blocks(std::int64_t n) { return (n + kBlock - 1) / kBlock; }

/// A square block in shared memory, by columns, so that the rows of a column lie in different banks.
using SharedBlock = double2[kBlock][kBlock + 1];

__global__ void keep_diagonals(Systems w, double* diagonals, std::int64_t count) {
  ECHOTRAIN_GRID_STRIDE(i, count * w.columns) diagonals[i] = w.at(i / w.columns, i % w.columns, i % w.columns).x;
}

/// Computes the inverse of the Cholesky factor of the diagonal block from `first` on, one block of threads per system.
/// Once column j of the factor is known, it is subtracted from the columns after it, and its multiple from the rows of
/// the inverse after j. inverses: [system, block, column, row]
__global__ void __launch_bounds__(kTileThreads)
    factor_diagonal(Systems w, int first, const double* diagonals, double2* inverses, double* failed) {
  __shared__ SharedBlock a, inverse;
  const std::int64_t system = blockIdx.x;
  const int n = w.unknowns[system], i = threadIdx.x % kBlock, warp = threadIdx.x / kBlock;
  if (first >= n) return;
  for (int k = warp; k < kBlock; k += kWarps) {
    a[k][i] = w.at(system, first + i, first + k);
    inverse[k][i] = make_double2(i == k ? 1.0 : 0.0, 0.0);
  }
  __syncthreads();
  for (int j = 0; j < kBlock; ++j) {
    double pivot = a[j][j].x;
    if (!(pivot > n * DBL_EPSILON * diagonals[system * w.columns + first + j]) || !isfinite(pivot)) {
      if (threadIdx.x == 0) *failed = 1;
      pivot = 1;
    }
    const double by = 1 / sqrt(pivot);
    if (warp == 0 && i > j) a[j][i] = make_double2(a[j][i].x * by, a[j][i].y * by);
    if (warp == 1 && i <= j) inverse[i][j] = make_double2(inverse[i][j].x * by, inverse[i][j].y * by);
    __syncthreads();
    if (i > j) {
      const double2 factor = make_double2(-a[j][i].x, -a[j][i].y);
      for (int k = warp; k < kBlock; k += kWarps) {
        if (k <= j)
          add_product(factor, inverse[k][j], inverse[k][i]);
        else if (k <= i)
          add_product(factor, conjugate(a[j][k]), a[k][i]);
      }
    }
    __syncthreads();
  }
  double2* to = inverses + (system * (w.columns / kBlock) + first / kBlock) * kBlock * kBlock;
  for (int k = warp; k < kBlock; k += kWarps) to[k * kBlock + i] = inverse[k][i];
}

/// True if rows [row, row + kBlock) belong to no unknown of the system, nor to a right-hand side.
__device__ bool beyond(const Systems& w, std::int64_t system, std::int64_t row) {
  return row >= w.unknowns[system] && row + kBlock <= w.columns;
}

/// Multiplies kBlock rows below the diagonal block by the inverse of its conjugate transpose, one block of threads per
/// kBlock rows.
__global__ void __launch_bounds__(kTileThreads) divide_rows(Systems w, int first, const double2* inverses) {
  const std::int64_t system = blockIdx.y, row = first + kBlock + static_cast<std::int64_t>(blockIdx.x) * kBlock;
  if (first >= w.unknowns[system] || beyond(w, system, row)) return;
  const double2* inverse = inverses + (system * (w.columns / kBlock) + first / kBlock) * kBlock * kBlock;
  SmallTile tile;
  tile.add([&](int i, int k) { return row + i < w.rows ? w.at(system, row + i, first + k) : make_double2(0.0, 0.0); },
           [&](int j, int k) { return conjugate(inverse[k * kBlock + j]); }, kBlock);
  tile.each([&](int i, int j, double2 sum) {
    if (row + i < w.rows) w.at(system, row + i, first + j) = sum;
  });
}

/// Subtracts the products of the columns from `first` on from all columns to their right, one block of threads per
/// tile.
__global__ void __launch_bounds__(kTileThreads) subtract_columns(Systems w, int first) {
  const std::int64_t system = blockIdx.z, below = first + kBlock;
  const std::int64_t row = below + static_cast<std::int64_t>(blockIdx.x) * kBlock;
  const std::int64_t column = below + static_cast<std::int64_t>(blockIdx.y) * kBlock;
  if (row < column || column >= w.unknowns[system] || beyond(w, system, row)) return;
  SmallTile tile;
  tile.add([&](int i, int k) { return row + i < w.rows ? w.at(system, row + i, first + k) : make_double2(0.0, 0.0); },
           [&](int j, int k) { return conjugate(w.at(system, column + j, first + k)); }, kBlock);
  tile.each([&](int i, int j, double2 sum) {
    if (row + i >= w.rows) return;
    double2& to = w.at(system, row + i, column + j);
    to = make_double2(to.x - sum.x, to.y - sum.y);
  });
}

/// Divides right-hand sides, which are divided by L^H, by L too, from the last block of columns to the first; one block
/// of threads per kRowsBackward of them. Each thread has one element of the block, and reads of other blocks only
/// elements that it has written itself.
__global__ void __launch_bounds__(kTileThreads) divide_by_factor(Systems w, const double2* inverses, int m) {
  __shared__ SharedBlock factor;
  __shared__ double2 known[kRowsBackward][kBlock];
  const std::int64_t system = blockIdx.y;
  const int j = threadIdx.x % kBlock, r = threadIdx.x / kBlock;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRowsBackward + r;
  const bool own = row < m;
  const std::int64_t end = (w.unknowns[system] + kBlock - 1) / kBlock * kBlock;
  for (std::int64_t first = end - kBlock; first >= 0; first -= kBlock) {
    double2 sum = make_double2(0.0, 0.0);
    for (std::int64_t after = first + kBlock; after < end; after += kBlock) {
      __syncthreads();
      for (int k = r; k < kBlock; k += kWarps) factor[k][j] = w.at(system, after + j, first + k);
      known[r][j] = own ? w.at(system, w.columns + row, after + j) : make_double2(0.0, 0.0);
      __syncthreads();
      for (int k = 0; k < kBlock; ++k) add_product(known[r][k], factor[j][k], sum);
    }
    __syncthreads();
    const double2* inverse = inverses + (system * (w.columns / kBlock) + first / kBlock) * kBlock * kBlock;
    for (int k = r; k < kBlock; k += kWarps) factor[k][j] = inverse[k * kBlock + j];
    const double2 right = own ? w.at(system, w.columns + row, first + j) : make_double2(0.0, 0.0);
    known[r][j] = make_double2(right.x - sum.x, right.y - sum.y);
    __syncthreads();
    double2 solution = make_double2(0.0, 0.0);
    for (int k = j; k < kBlock; ++k) add_product(known[r][k], factor[j][k], solution);
    if (own) w.at(system, w.columns + row, first + j) = solution;
  }
}
static_assert(kRowsBackward == kWarps);

unsigned grid(std::int64_t n) { return static_cast<unsigned>(n); }

}  // namespace

HermitianBatch::HermitianBatch(Context& context, const std::vector<std::int32_t>& unknowns, std::int64_t m)
    : count_(static_cast<std::int64_t>(unknowns.size())),
      columns_(in_blocks(*std::max_element(unknowns.begin(), unknowns.end())) * kBlock),
      m_(m) {
  HostArray<std::int32_t> host = context.allocate_host<std::int32_t>({count_});
  std::copy(unknowns.begin(), unknowns.end(), host.data());
  unknowns_ = context.place<std::int32_t>(host);
  elements_ = context.allocate<cdouble>({count_, columns_, columns_ + m_});
  inverses_ = context.allocate<cdouble>({count_, columns_, kBlock});
  diagonals_ = context.allocate<double>({count_, columns_});
}

std::uint64_t HermitianBatch::bytes_of(std::int64_t n, std::int64_t m) {
  const std::int64_t columns = in_blocks(n) * kBlock;
  return static_cast<std::uint64_t>(columns * (columns + m + kBlock + 1)) * sizeof(cdouble);
}

HermitianBatch::View HermitianBatch::view() {
  return {reinterpret_cast<double2*>(elements_.data()), unknowns_.data(), columns_, columns_ + m_};
}

void HermitianBatch::solve(Context& context, double* failed) {
  const cudaStream_t stream = stream_of(context);
  const Systems systems = view();
  auto* inverses = reinterpret_cast<double2*>(inverses_.data());
  keep_diagonals<<<blocks_for(count_ * columns_), kThreads, 0, stream>>>(systems, diagonals_.data(), count_);
  check_launch("keep_diagonals");
  for (std::int64_t first = 0; first < columns_; first += kBlock) {
    context.check_stop();
    const int at = static_cast<int>(first);
    factor_diagonal<<<grid(count_), kTileThreads, 0, stream>>>(systems, at, diagonals_.data(), inverses, failed);
    check_launch("factor_diagonal");
    const std::int64_t rows = in_blocks(systems.rows - first - kBlock), left = (columns_ - first) / kBlock - 1;
    divide_rows<<<dim3(grid(rows), grid(count_)), kTileThreads, 0, stream>>>(systems, at, inverses);
    check_launch("divide_rows");
    if (left == 0) break;
    subtract_columns<<<dim3(grid(rows), grid(left), grid(count_)), kTileThreads, 0, stream>>>(systems, at);
    check_launch("subtract_columns");
  }
  divide_by_factor<<<dim3(grid((m_ + kRowsBackward - 1) / kRowsBackward), grid(count_)), kTileThreads, 0, stream>>>(
      systems, inverses, static_cast<int>(m_));
  check_launch("divide_by_factor");
}

}  // namespace echotrain::numerics::cuda
