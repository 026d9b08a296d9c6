#include "gadgets/numerics/coils/hermitian_eigen.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/core/array.h"

namespace echotrain::numerics {
namespace {

using Eigen::Index;
using Eigen::MatrixXcd;
using Eigen::VectorXcd;
using Eigen::VectorXd;

/// A tridiagonal matrix T and a unitary Q with Q T Q^H the matrix that it was made from.
struct Tridiagonal {
  VectorXd diagonal, below;
  MatrixXcd q;
};

/// `a`: its lower triangle is overwritten.
Tridiagonal tridiagonal(const ThreadPool& threads, MatrixXcd& a) {
  const Index n = a.rows();
  VectorXcd taus(n - 1), product(n);
  Tridiagonal out{VectorXd(n), VectorXd(n - 1), {}};
  for (Index i = 0; i + 1 < n; ++i) {
    threads.check_stop();
    const Index left = n - i - 1;
    auto v = a.col(i).tail(left);
    auto rest = a.bottomRightCorner(left, left);
    v.makeHouseholderInPlace(taus[i], out.below[i]);
    v[0] = 1;  // while H = 1 - tau v v^H is applied from both sides
    const cdouble tau = std::conj(taus[i]);
    auto w = product.head(left);
#ifdef __clang_analyzer__  // sees a leak in Eigen's product where there is none
    w.noalias() = rest * (tau * v);
#else
    w.noalias() = rest.selfadjointView<Eigen::Lower>() * (tau * v);
#endif
    w -= (0.5 * tau * w.dot(v)) * v;
    rest.selfadjointView<Eigen::Lower>().rankUpdate(v, w, cdouble(-1));
  }
  out.diagonal = a.diagonal().real();
  out.q = MatrixXcd::Identity(n, n);
  for (Index i = n - 2; i >= 0; --i) {
    threads.check_stop();
    const Index left = n - i - 1;
    out.q.bottomRightCorner(left, left)
        .applyHouseholderOnTheLeft(a.col(i).tail(left - 1), std::conj(taus[i]), product.data());
  }
  return out;
}

/// Makes T diagonal; the columns of Q become eigenvectors.
void diagonalize(const ThreadPool& threads, Tridiagonal& t) {
  constexpr Index kMostSweeps = 30;  // per value; two or three are usual
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  const Index n = t.diagonal.size();
  Index sweeps = 0;
  for (Index end = n - 1; end > 0;) {
    const auto is_zero = [&](Index i) {  // beside the largest value, which is about 1
      return std::abs(t.below[i]) <= kEpsilon * std::sqrt(std::abs(t.diagonal[i]) + std::abs(t.diagonal[i + 1])) ||
             std::abs(t.below[i]) < std::numeric_limits<double>::min();
    };
    if (is_zero(end - 1)) {
      t.below[--end] = 0;
      continue;
    }
    threads.check_stop();
    if (++sweeps > kMostSweeps * n) throw std::runtime_error("hermitian_eigen: no convergence");
    Index start = end - 1;
    while (start > 0 && !is_zero(start - 1)) --start;
    if (start > 0) t.below[start - 1] = 0;
    Eigen::internal::tridiagonal_qr_step<Eigen::ColMajor>(t.diagonal.data(), t.below.data(), start, end, t.q.data(), n);
  }
}

}  // namespace

HermitianEigen hermitian_eigen(const ThreadPool& threads, MatrixXcd matrix) {
  const Index n = matrix.rows();
  // Squares of values neither overflow nor vanish.
  double largest = 0;
  for (Index j = 0; j < n; ++j) largest = std::max(largest, matrix.col(j).tail(n - j).cwiseAbs().maxCoeff());
  const double scale = largest > 0 ? largest : 1;
  matrix.triangularView<Eigen::Lower>() /= scale;
  Tridiagonal t = tridiagonal(threads, matrix);
  matrix.resize(0, 0);
  diagonalize(threads, t);
  std::vector<Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](Index a, Index b) { return t.diagonal[a] < t.diagonal[b]; });
  HermitianEigen out{VectorXd(n), MatrixXcd(n, n)};
  for (Index i = 0; i < n; ++i) {
    out.values[i] = scale * t.diagonal[order[static_cast<std::size_t>(i)]];
    out.vectors.col(i) = t.q.col(order[static_cast<std::size_t>(i)]);
  }
  return out;
}

}  // namespace echotrain::numerics
