// Hermitian positive definite systems of linear equations (Cholesky), in float64 on the device, several at a time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics::cuda {

/// W G = B for W, as HermitianSystem on the host: n unknowns, m right-hand sides, each a row. Each system of a batch
/// has the room of the largest. The caller fills unknowns beyond a system's own with 1 on the diagonal and 0 elsewhere.
/// Asynchronous on the context's stream; the same bits in every run.
class HermitianBatch {
 public:
  /// The elements as kernels see them. Element (i, j) of a system's matrix, i >= j, and element (r, j) of its
  /// right-hand sides, later of the solutions, at row i or columns + r.
  struct View {
    double2* elements;
    const std::int32_t* unknowns;  ///< number of unknowns of each system
    std::int64_t columns, rows;    ///< room: unknowns in full blocks; and right-hand sides
    __device__ double2& at(std::int64_t system, std::int64_t row, std::int64_t column) const {
      return elements[(system * columns + column) * rows + row];
    }
  };

  /// unknowns: one number, 1 or more, per system. m: 1 or more.
  HermitianBatch(Context& context, const std::vector<std::int32_t>& unknowns, std::int64_t m);
  /// The memory of one system [bytes].
  static std::uint64_t bytes_of(std::int64_t n, std::int64_t m);

  std::int64_t count() const { return count_; }
  std::int64_t right_sides() const { return m_; }
  std::int64_t size() const { return count_ * columns_ * (columns_ + m_); }  ///< elements, filled in by the caller
  View view();

  /// Replaces right-hand sides by solutions, and matrices by their factors (Golub and Van Loan, "Matrix Computations",
  /// 4th ed., 4.2.9; blocks on the diagonal are inverted). *failed = 1 where a matrix is not positive definite, to n
  /// rounding errors of its diagonal; its solutions are then undefined. Checks the stop token between steps.
  void solve(Context& context, double* failed);

 private:
  std::int64_t count_, columns_, m_;
  Array<std::int32_t> unknowns_;
  Array<cdouble> elements_, inverses_;  // inverses_: [system, block, column, row]
  Array<double> diagonals_;             // [system, column]
};

}  // namespace echotrain::numerics::cuda
