// Systems of linear equations with a Hermitian positive definite matrix, in float64 on the host.
#pragma once

#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/dense/complex_tiles.h"

namespace echotrain::numerics {

/// W G = B for W, where G is [n, n] and B is [m, n]: n unknowns, m right-hand sides, each a row.
///
/// Real and imaginary parts are kept apart. Element (i, j) of the matrix, i >= j, lies at column(j)[i], and element (r,
/// j) of the right-hand sides, later of the solutions, at column(j)[first_right() + r]. All are 0 at first.
/// Memory: 16 (n + m) n bytes, which the context's account pays for.
class HermitianSystem {
 public:
  /// Throws std::invalid_argument where n or m is less than 1.
  HermitianSystem(Context& context, std::int64_t n, std::int64_t m);
  std::int64_t unknowns() const { return n_; }
  std::int64_t right_sides() const { return m_; }
  std::int64_t first_right() const { return padded_; }
  /// The number of elements from one column to the next. Each column has 8 elements of padding after its last.
  std::int64_t step() const { return step_; }
  cpu::Planes<double> column(std::int64_t j) { return planes().at(j * step_); }

  /// Replaces right-hand sides by solutions, and the matrix by its factor L, G = L L^H (Golub and Van Loan, "Matrix
  /// Computations", 4th ed., 4.2; column by column of blocks). About n^3 / 6 + m n^2 complex products, on all threads.
  /// Throws std::invalid_argument where the matrix is not positive definite, to n rounding errors of its diagonal.
  void solve(ThreadPool& threads);

 private:
  cpu::Planes<double> planes() { return {memory_.data(), memory_.data() + padded_ * step_}; }
  void factor_block(std::int64_t first, std::int64_t width, const std::vector<double>& diagonal);

  std::int64_t n_, m_, padded_, step_;
  HostArray<double> memory_;  // [2, padded_, step_]
};

}  // namespace echotrain::numerics
