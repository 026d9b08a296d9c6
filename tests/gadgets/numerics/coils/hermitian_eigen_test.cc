// The decomposition against its definition, in the matrices that it was made from.
#include "gadgets/numerics/coils/hermitian_eigen.h"

#include <gtest/gtest.h>

#include <limits>

#include "gadgets/numerics/core/array.h"

namespace echotrain::numerics {
namespace {

using Eigen::MatrixXcd;

/// A = V diag V^H with V^H V = 1, to some rounding errors of the largest value; the upper triangle is not looked at.
void expect_decomposes(const MatrixXcd& a) {
  SCOPED_TRACE(a.rows());
  const ThreadPool threads(1);
  MatrixXcd lower = a;
  lower.triangularView<Eigen::StrictlyUpper>().setConstant(cdouble(1e30, 1e30));
  const HermitianEigen eigen = hermitian_eigen(threads, lower);
  const double bound = 40 * static_cast<double>(a.rows()) * std::numeric_limits<double>::epsilon();
  const MatrixXcd& v = eigen.vectors;
  const MatrixXcd identity = MatrixXcd::Identity(a.rows(), a.cols());
  EXPECT_LE((v.adjoint() * v - identity).norm(), bound);
  EXPECT_LE((v * eigen.values.asDiagonal() * v.adjoint() - a).stableNorm(), bound * a.stableNorm());
  for (Eigen::Index i = 1; i < a.rows(); ++i) EXPECT_LE(eigen.values[i - 1], eigen.values[i]);
}

MatrixXcd random_gram(Eigen::Index n, Eigen::Index rank) {
  std::srand(1);
  const MatrixXcd x = MatrixXcd::Random(n, rank);
  return x * x.adjoint();
}

TEST(HermitianEigen, Decomposes) {
  for (const Eigen::Index n : {1, 2, 3, 7, 40, 120}) expect_decomposes(random_gram(n, n));
  expect_decomposes(random_gram(60, 5));  // 55 values are zero
  expect_decomposes(1e-200 * random_gram(10, 10));
  expect_decomposes(1e200 * random_gram(10, 10));
}

TEST(HermitianEigen, DecomposesWhatIsDiagonalAlready) {
  expect_decomposes(MatrixXcd::Zero(5, 5));
  expect_decomposes(3 * MatrixXcd::Identity(5, 5));
  MatrixXcd a = MatrixXcd::Zero(4, 4);
  a.diagonal() << 2, -1, 0, -1;
  expect_decomposes(a);
  a(1, 0) = cdouble(0, 1);
  a(0, 1) = cdouble(0, -1);
  expect_decomposes(a);
}

}  // namespace
}  // namespace echotrain::numerics
