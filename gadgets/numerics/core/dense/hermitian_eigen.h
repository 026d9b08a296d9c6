// Eigenvalues and eigenvectors of a large Hermitian matrix in float64 on the host, in steps between which a scan may be
// stopped.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "gadgets/numerics/core/dense/complex_tiles.h"
#include "gadgets/numerics/core/thread_pool.h"

namespace echotrain::numerics {

/// Complex numbers in rows, real and imaginary parts apart. Each row ends with at least 8 elements of padding, so that
/// tiles may read beyond it. All are 0 at first.
class SplitMatrix {
 public:
  SplitMatrix() = default;
  SplitMatrix(std::int64_t rows, std::int64_t columns);
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t step() const { return step_; }  ///< elements from one row to the next
  cpu::Planes<double> row(std::int64_t r) {
    double* re = memory_.data() + r * step_;
    return {re, re + imaginary_};
  }
  cpu::Planes<const double> row(std::int64_t r) const {
    const double* re = memory_.data() + r * step_;
    return {re, re + imaginary_};
  }
  static std::uint64_t bytes_of(std::int64_t rows, std::int64_t columns);

 private:
  std::int64_t rows_ = 0, columns_ = 0, step_ = 0, imaginary_ = 0;
  std::vector<double> memory_;
};

/// Adds to matrix(p, q), q >= p, the sum over rows r of `factor` of conj(factor(r, p)) factor(r, q). Sums run in the
/// order of rows.
void add_gram(ThreadPool& threads, const SplitMatrix& factor, SplitMatrix& matrix);

/// Eigenvectors of a Hermitian matrix.
struct HermitianEigen {
  std::vector<double> values;  ///< ascending
  SplitMatrix vectors;         ///< [element, value]: orthonormal columns
};

/// The eigenpairs whose values are at least `share` of the largest one; by default all. Householder's reduction to a
/// tridiagonal matrix, then implicit QR sweeps with Wilkinson's shift (Golub and Van Loan, "Matrix Computations", 4th
/// ed., 8.3). Element (p, q) of `matrix` is read where q >= p; `matrix` is overwritten. The same bits for any number of
/// threads. Takes about (n / 1000)^3 s on a core with AVX2, and n^2 numbers of 16 bytes beside the matrix and the
/// result; checks the stop token every n^2 operations. Throws Stopped; std::runtime_error where sweeps do not converge,
/// which only values that are not finite have been seen to do.
HermitianEigen hermitian_eigen(ThreadPool& threads, SplitMatrix matrix,
                               double share = -std::numeric_limits<double>::infinity());

}  // namespace echotrain::numerics
