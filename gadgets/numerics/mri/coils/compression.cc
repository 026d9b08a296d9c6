#include "gadgets/numerics/mri/coils/compression.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>

#include "gadgets/numerics/core/dense/hermitian_eigen.h"
#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/heap_account.h"
#include "gadgets/numerics/mri/coils/compression_ops.h"

namespace echotrain::numerics {
namespace {

using Eigen::MatrixXcd;

void check_options(const CompressionOptions& options) {
  if (options.channels < 0 || !(options.energy > 0) || options.energy > 1)
    throw std::invalid_argument(fmt::format("coil compression: cannot keep {} channels, or the share {} of the energy",
                                            options.channels, options.energy));
}

void check_gram(const MatrixXcd& gram) {
  if (!gram.allFinite()) throw std::invalid_argument("coil compression: the data are not finite");
  if (!(gram.trace().real() > 0)) throw std::invalid_argument("coil compression: the data are zero");
}

/// The smallest number of the largest `values` (ascending) that hold the share `energy` of their sum.
std::int64_t fewest(const Eigen::VectorXd& values, double energy) {
  const double all = values.sum();
  double held = 0;
  for (Eigen::Index i = values.size(); i-- > 0;) {
    held += values(i);
    if (held >= energy * all) return values.size() - i;
  }
  return values.size();
}

std::int64_t number_kept(const Eigen::VectorXd& values, const CompressionOptions& options) {
  const std::int64_t coils = values.size();
  return options.channels > 0 ? std::min(options.channels, coils) : fewest(values, options.energy);
}

double largest_sum(const Eigen::VectorXd& values, std::int64_t kept) { return values.tail(kept).sum(); }

/// The eigendecomposition of a Hermitian matrix.
struct Decomposed {
  Eigen::VectorXd values;  ///< ascending
  MatrixXcd vectors;
};

/// Runs on this thread alone, and stops when the work of `threads` is to stop.
Decomposed decomposed(const ThreadPool& threads, const MatrixXcd& matrix) {
  const Eigen::Index n = matrix.rows();
  SplitMatrix upper(n, n);
  for (Eigen::Index p = 0; p < n; ++p)
    for (Eigen::Index q = p; q < n; ++q) {
      upper.row(p).re[q] = matrix(p, q).real();
      upper.row(p).im[q] = matrix(p, q).imag();
    }
  ThreadPool one(1), alone(one, threads.stop_token());
  const HermitianEigen eigen = hermitian_eigen(alone, std::move(upper));
  Decomposed out{Eigen::Map<const Eigen::VectorXd>(eigen.values.data(), n), MatrixXcd(n, n)};
  for (Eigen::Index i = 0; i < n; ++i)
    for (Eigen::Index k = 0; k < n; ++k) out.vectors(i, k) = {eigen.vectors.row(i).re[k], eigen.vectors.row(i).im[k]};
  return out;
}

/// A matrix whose rows are the conjugated eigenvectors of the largest eigenvalues.
MatrixXcd rows_of(const Decomposed& eigen, std::int64_t kept) {
  return eigen.vectors.rightCols(kept).rowwise().reverse().adjoint();
}

void fix_phases(MatrixXcd& rows) {
  for (Eigen::Index k = 0; k < rows.rows(); ++k) {
    Eigen::Index largest = 0;
    rows.row(k).cwiseAbs().maxCoeff(&largest);
    rows.row(k) *= std::polar(1.0, -std::arg(rows(k, largest)));
  }
}

/// The sum of the matrices [coil, coil, position] over positions [begin, end).
MatrixXcd sum_of(const std::vector<cdouble>& grams, std::int64_t coils, std::int64_t positions, std::int64_t begin,
                 std::int64_t end) {
  MatrixXcd sum = MatrixXcd::Zero(coils, coils);
  for (std::int64_t a = 0; a < coils; ++a)
    for (std::int64_t b = 0; b < coils; ++b)
      for (std::int64_t x = begin; x < end; ++x)
        sum(a, b) += grams[static_cast<std::size_t>((a * coils + b) * positions + x)];
  return sum;
}

/// The unitary matrix Q for which Q rows is nearest to `neighbour`, times rows.
MatrixXcd aligned(const MatrixXcd& rows, const MatrixXcd& neighbour) {
  // Eigen's Jacobi SVD of a square matrix: its divide-and-conquer one takes this file 45 s longer to compile.
  const Eigen::JacobiSVD<MatrixXcd, Eigen::NoQRPreconditioner> svd(rows * neighbour.adjoint(),
                                                                   Eigen::ComputeFullU | Eigen::ComputeFullV);
  return svd.matrixV() * svd.matrixU().adjoint() * rows;
}

void check_size(std::size_t size, std::int64_t coils, std::int64_t positions) {
  if (coils < 1 || positions < 1 || static_cast<std::int64_t>(size) != coils * coils * positions)
    throw std::invalid_argument(
        fmt::format("coil compression: {} values are not {} matrices of {} coils", size, positions, coils));
}

}  // namespace

Compression compression_by_pca(const ThreadPool& threads, const std::vector<cdouble>& gram, std::int64_t coils,
                               const CompressionOptions& options) {
  check_options(options);
  check_size(gram.size(), coils, 1);
  const HeapCharge paid(4 * sizeof(cdouble) * gram.size());  // of Eigen, which allocates with malloc
  const MatrixXcd matrix = sum_of(gram, coils, 1, 0, 1);
  check_gram(matrix);
  const Decomposed eigen = decomposed(threads, matrix);
  Compression out;
  out.kept = number_kept(eigen.values, options);
  out.energy = largest_sum(eigen.values, out.kept) / eigen.values.sum();
  MatrixXcd rows = rows_of(eigen, out.kept);
  fix_phases(rows);
  for (std::int64_t k = 0; k < out.kept; ++k)
    for (std::int64_t c = 0; c < coils; ++c) out.matrix.emplace_back(rows(k, c));
  return out;
}

Compression geometric_compression(ThreadPool& threads, const std::vector<cdouble>& grams, std::int64_t coils,
                                  std::int64_t positions, const CompressionOptions& options) {
  constexpr std::int64_t kReach = 2;  // neighbours on either side
  check_options(options);
  check_size(grams.size(), coils, positions);
  check_gram(sum_of(grams, coils, positions, 0, positions));

  const auto count = static_cast<std::size_t>(positions);
  std::vector<Decomposed> eigen(count);
  threads.parallel_for(positions, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t x = begin; x < end; ++x)
      eigen[static_cast<std::size_t>(x)] = decomposed(
          threads,
          sum_of(grams, coils, positions, std::max<std::int64_t>(0, x - kReach), std::min(positions, x + kReach + 1)));
  });
  Eigen::VectorXd values = Eigen::VectorXd::Zero(coils);
  for (const Decomposed& each : eigen) values += each.values;

  Compression out;
  out.kept = number_kept(values, options);
  out.samples = positions;
  if (out.kept > kMostGeometric)
    throw std::invalid_argument(
        fmt::format("coil compression: {} virtual coils of each position along the readout; at most {}: keep fewer of "
                    "them, or find the same ones everywhere (method pca)",
                    out.kept, kMostGeometric));
  out.energy = largest_sum(values, out.kept) / values.sum();

  std::vector<MatrixXcd> rows(count);
  const std::size_t middle = count / 2;
  rows[middle] = rows_of(eigen[middle], out.kept);
  fix_phases(rows[middle]);
  for (std::size_t x = middle + 1; x < count; ++x) {
    threads.check_stop();
    rows[x] = aligned(rows_of(eigen[x], out.kept), rows[x - 1]);
  }
  for (std::size_t x = middle; x-- > 0;) {
    threads.check_stop();
    rows[x] = aligned(rows_of(eigen[x], out.kept), rows[x + 1]);
  }
  out.matrix.resize(static_cast<std::size_t>(out.kept * coils) * count);
  for (std::int64_t k = 0; k < out.kept; ++k)
    for (std::int64_t c = 0; c < coils; ++c)
      for (std::size_t x = 0; x < count; ++x)
        out.matrix[static_cast<std::size_t>(k * coils + c) * count + x] = cfloat(rows[x](k, c));
  return out;
}

void add_coil_gram(Context& context, DeviceView<const cfloat> data, std::int64_t first, std::int64_t last,
                   DeviceView<cdouble> gram) {
  const Shape &d = data.shape(), &g = gram.shape();
  if (d.rank() != 3 || g.rank() != 2 || g[0] != d[1] || g[1] != d[1] || first < 0 || last > d[2] || first > last)
    throw std::invalid_argument(
        fmt::format("add_coil_gram: expected [readout, coil, sample] and [coil, coil], got {}, of which samples {} to "
                    "{}, and {}",
                    d.text(), first, last, g.text()));
  if (data.size() == 0 || first == last) return;
  ECHOTRAIN_DISPATCH(context, add_coil_gram(context, data, first, last, gram));
}

}  // namespace echotrain::numerics
