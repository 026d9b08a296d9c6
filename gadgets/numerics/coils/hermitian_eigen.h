// Eigenvalues and eigenvectors of a large Hermitian matrix, in steps between which a scan may be stopped.
#pragma once

#include <Eigen/Core>

#include "gadgets/numerics/core/thread_pool.h"

namespace echotrain::numerics {

/// matrix = vectors diag(values) vectors^H.
struct HermitianEigen {
  Eigen::VectorXd values;    ///< ascending
  Eigen::MatrixXcd vectors;  ///< orthonormal columns
};

/// Householder's reduction to a tridiagonal matrix, then implicit QR sweeps with Wilkinson's shift (Golub and Van Loan,
/// "Matrix Computations", 4th ed., 8.3). Only the lower triangle of `matrix` is read. About (n / 500)^3 s and 3 n^2
/// numbers of 16 bytes; the stop token is looked at each n^2 operations. Stopped; std::runtime_error where sweeps do
/// not converge, which only values that are not finite have been seen to do.
HermitianEigen hermitian_eigen(const ThreadPool& threads, Eigen::MatrixXcd matrix);

}  // namespace echotrain::numerics
