// Solutions put into the equations that they solve, with Eigen's products.
#include "gadgets/numerics/core/dense/hermitian_solve.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cstdlib>

#include "tests/support/resources.h"

namespace echotrain::numerics {
namespace {

using Eigen::Index;
using Eigen::MatrixXcd;

/// The solution of W G = B. Only the lower triangle of G goes in.
MatrixXcd solved(const MatrixXcd& g, const MatrixXcd& b) {
  Context context(Backend::cpu, test_resources());
  HermitianSystem system(context, g.rows(), b.rows());
  for (Index j = 0; j < g.cols(); ++j) {
    const auto column = system.column(j);
    for (Index i = j; i < g.rows(); ++i) column.re[i] = g(i, j).real(), column.im[i] = g(i, j).imag();
    for (Index r = 0; r < b.rows(); ++r)
      column.re[system.first_right() + r] = b(r, j).real(), column.im[system.first_right() + r] = b(r, j).imag();
  }
  system.solve(context.threads());
  MatrixXcd w(b.rows(), b.cols());
  for (Index j = 0; j < b.cols(); ++j)
    for (Index r = 0; r < b.rows(); ++r)
      w(r, j) = {system.column(j).re[system.first_right() + r], system.column(j).im[system.first_right() + r]};
  return w;
}

MatrixXcd definite(Index n, double least) {
  std::srand(3);
  const MatrixXcd x = MatrixXcd::Random(n, n);
  return x * x.adjoint() / static_cast<double>(n) + least * MatrixXcd::Identity(n, n);
}

TEST(HermitianSolve, SolvesForEveryRightSide) {
  // Sizes about the tiles of 4 and 8 and the blocks of 32 and 64.
  for (const Index n : {1, 2, 4, 5, 31, 32, 33, 65, 130, 201})
    for (const Index m : {1, 7, 8, 70}) {
      const MatrixXcd g = definite(n, 0.01), b = MatrixXcd::Random(m, n), w = solved(g, b);
      // Cholesky's backward error is some n roundings of |W| |G|.
      EXPECT_LE((w * g - b).norm(), 1e-15 * static_cast<double>(n + 10) * w.norm() * g.norm()) << n << " " << m;
      EXPECT_LE((w - b * g.inverse()).norm(), 1e-10 * w.norm()) << n << " " << m;
    }
}

TEST(HermitianSolve, DoesNotDependOnTheScale) {
  const MatrixXcd g = definite(40, 0.01), b = MatrixXcd::Random(3, 40), w = solved(g, b);
  for (const double scale : {1e-30, 1e30}) EXPECT_LE((solved(scale * g, b) * scale - w).norm(), 1e-12 * w.norm());
}

TEST(HermitianSolve, RefusesWhatIsNotPositiveDefinite) {
  const MatrixXcd b = MatrixXcd::Ones(1, 50);
  MatrixXcd g = definite(50, 0.01);
  g(40, 40) = -1;
  EXPECT_THROW(solved(g, b), std::invalid_argument);
  EXPECT_THROW(solved(MatrixXcd::Zero(50, 50), b), std::invalid_argument);
  g = definite(50, 0.01);
  g(49, 49) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(solved(g, b), std::invalid_argument);
  const MatrixXcd flat = MatrixXcd::Random(50, 20);  // 30 of 50 eigenvalues are 0
  EXPECT_THROW(solved(flat * flat.adjoint(), b), std::invalid_argument);
}

TEST(HermitianSolve, RefusesEmptySystems) {
  Context context(Backend::cpu, test_resources());
  EXPECT_THROW(HermitianSystem(context, 0, 1), std::invalid_argument);
  EXPECT_THROW(HermitianSystem(context, 1, 0), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
