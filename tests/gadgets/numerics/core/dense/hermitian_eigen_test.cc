// The decomposition against its definition, in the matrices that it was made from.
#include "gadgets/numerics/core/dense/hermitian_eigen.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <limits>

#include "gadgets/numerics/core/array.h"

namespace echotrain::numerics {
namespace {

using Eigen::MatrixXcd;

/// Element (p, q), q >= p, of a; of what lies below the diagonal nothing is read.
SplitMatrix upper_part(const MatrixXcd& a) {
  SplitMatrix out(a.rows(), a.cols());
  for (Eigen::Index p = 0; p < a.rows(); ++p)
    for (Eigen::Index q = 0; q < a.cols(); ++q) {
      out.row(p).re[q] = q >= p ? a(p, q).real() : 1e30;
      out.row(p).im[q] = q >= p ? a(p, q).imag() : 1e30;
    }
  return out;
}

MatrixXcd vectors_of(const HermitianEigen& eigen) {
  MatrixXcd v(eigen.vectors.rows(), eigen.vectors.columns());
  for (Eigen::Index i = 0; i < v.rows(); ++i)
    for (Eigen::Index k = 0; k < v.cols(); ++k)
      v(i, k) = cdouble(eigen.vectors.row(i).re[k], eigen.vectors.row(i).im[k]);
  return v;
}

/// A = V diag V^H with V^H V = 1, to some rounding errors of the largest value.
void expect_decomposes(const MatrixXcd& a) {
  SCOPED_TRACE(a.rows());
  ThreadPool threads(2);
  const HermitianEigen eigen = hermitian_eigen(threads, upper_part(a));
  const double bound = 40 * static_cast<double>(a.rows()) * std::numeric_limits<double>::epsilon();
  ASSERT_EQ(eigen.values.size(), static_cast<std::size_t>(a.rows()));
  const MatrixXcd v = vectors_of(eigen), identity = MatrixXcd::Identity(a.rows(), a.cols());
  const Eigen::Map<const Eigen::VectorXd> values(eigen.values.data(), a.rows());
  EXPECT_LE((v.adjoint() * v - identity).norm(), bound);
  EXPECT_LE((v * values.asDiagonal() * v.adjoint() - a).stableNorm(), bound * a.stableNorm());
  EXPECT_TRUE(std::is_sorted(eigen.values.begin(), eigen.values.end()));
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

TEST(HermitianEigen, GivesTheLargest) {
  const MatrixXcd a = random_gram(50, 20);
  ThreadPool threads(1);
  const Eigen::VectorXd truth = Eigen::SelfAdjointEigenSolver<MatrixXcd>(a).eigenvalues();
  const double share = 0.5 * (truth[45] + truth[46]) / truth[49];  // between two
  const HermitianEigen eigen = hermitian_eigen(threads, upper_part(a), share);
  ASSERT_EQ(eigen.values.size(), 4u);
  const double bound = 2000 * std::numeric_limits<double>::epsilon() * truth[49];
  for (Eigen::Index k = 0; k < 4; ++k) EXPECT_NEAR(eigen.values[static_cast<std::size_t>(k)], truth[46 + k], bound);
  const MatrixXcd v = vectors_of(eigen);
  EXPECT_LE((a * v - v * truth.tail(4).asDiagonal()).norm(), bound);
}

TEST(HermitianEigen, GramOfRows) {
  for (const auto& [rows, columns] : {std::pair<int, int>{130, 37}, {5, 8}, {64, 1}}) {
    std::srand(2);
    const MatrixXcd factor = MatrixXcd::Random(rows, columns), more = MatrixXcd::Random(rows, columns);
    SplitMatrix gram(columns, columns);
    ThreadPool threads(2);
    for (const MatrixXcd* each : {&factor, &more}) {
      SplitMatrix split(rows, columns);
      for (int r = 0; r < rows; ++r)
        for (int p = 0; p < columns; ++p) {
          split.row(r).re[p] = (*each)(r, p).real();
          split.row(r).im[p] = (*each)(r, p).imag();
        }
      add_gram(threads, split, gram);
    }
    const MatrixXcd truth = factor.adjoint() * factor + more.adjoint() * more;
    for (int p = 0; p < columns; ++p)
      for (int q = p; q < columns; ++q)
        ASSERT_LT(std::abs(cdouble(gram.row(p).re[q], gram.row(p).im[q]) - truth(p, q)), 1e-12 * rows) << p << " " << q;
  }
}

}  // namespace
}  // namespace echotrain::numerics
