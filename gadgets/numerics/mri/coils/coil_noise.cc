#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "gadgets/numerics/core/heap_account.h"
#include "gadgets/numerics/mri/coils/coil.h"

namespace echotrain::numerics {
namespace {

using Matrix = Eigen::Matrix<cdouble, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Block = Eigen::Matrix<cfloat, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

std::size_t entries(int coils) { return static_cast<std::size_t>(coils) * static_cast<std::size_t>(coils); }

}  // namespace

NoiseCovariance::NoiseCovariance(int coils) : coils_(coils) {
  if (coils < 1) throw std::invalid_argument("a noise covariance needs at least one coil");
  sum_.assign(entries(coils), cdouble{});
}

void NoiseCovariance::add(HostView<const cfloat> noise) {
  if (noise.shape().rank() != 2 || noise.shape()[0] != coils_)
    throw std::invalid_argument(
        fmt::format("noise covariance of {} coils: expected [coil, sample], got {}", coils_, noise.shape().text()));
  constexpr std::int64_t kBlock = 1024;  // bounds the float64 copy
  const std::int64_t n = noise.shape()[1];
  if (n == 0) return;
  const HeapCharge paid(sizeof(cdouble) * static_cast<std::size_t>(coils_ * std::min(kBlock, n)));
  Eigen::Map<Matrix> sum(sum_.data(), coils_, coils_);
  const Eigen::Map<const Block> all(noise.data(), coils_, n);
  for (std::int64_t s = 0; s < n; s += kBlock) {
    const Matrix part = all.middleCols(s, std::min(kBlock, n - s)).cast<cdouble>();
    sum.noalias() += part * part.adjoint();
  }
  samples_ += n;
}

std::vector<cdouble> NoiseCovariance::covariance() const {
  if (samples_ < 2) throw std::invalid_argument("a noise covariance needs at least two samples");
  std::vector<cdouble> c = sum_;
  for (cdouble& value : c) value /= static_cast<double>(samples_ - 1);
  return c;
}

std::vector<cfloat> whitening_matrix(const std::vector<cdouble>& covariance, int coils, double scale) {
  if (coils < 1 || covariance.size() != entries(coils))
    throw std::invalid_argument(
        fmt::format("whitening: {} values are not a matrix of {} coils", covariance.size(), coils));
  if (!(scale > 0) || !std::isfinite(scale)) throw std::invalid_argument("whitening: the noise scale must be positive");
  const Eigen::Map<const Matrix> c(covariance.data(), coils, coils);
  if (!c.allFinite()) throw std::invalid_argument("whitening: the noise covariance is not finite");
  const HeapCharge paid(2 * sizeof(cdouble) * entries(coils));  // of Eigen, which allocates with malloc
  const Eigen::LLT<Matrix> cholesky(c);
  // A coil that repeats others can pass the factorisation, but its pivot is then nothing but rounding error.
  bool good = cholesky.info() == Eigen::Success;
  for (int i = 0; good && i < coils; ++i) good = std::norm(cholesky.matrixLLT()(i, i)) > 1e-12 * c(i, i).real();
  if (!good)
    throw std::invalid_argument(
        "whitening: the noise covariance is not positive definite (a dead coil, or fewer noise samples than coils)");
  Matrix w = Matrix::Identity(coils, coils) * std::sqrt(2.0 / scale);
  cholesky.matrixL().solveInPlace(w);
  std::vector<cfloat> result(entries(coils));
  std::transform(w.data(), w.data() + w.size(), result.begin(), [](cdouble v) { return cfloat(v); });
  return result;
}

std::vector<cfloat> inverse_whitening(const std::vector<cfloat>& matrix, int coils) {
  if (coils < 1 || matrix.size() != entries(coils))
    throw std::invalid_argument(fmt::format("whitening: {} values are not a matrix of {} coils", matrix.size(), coils));
  const HeapCharge paid(2 * sizeof(cdouble) * entries(coils));
  const Matrix w = Eigen::Map<const Block>(matrix.data(), coils, coils).cast<cdouble>();
  Matrix back = Matrix::Identity(coils, coils);
  w.triangularView<Eigen::Lower>().solveInPlace(back);
  std::vector<cfloat> result(entries(coils));
  std::transform(back.data(), back.data() + back.size(), result.begin(), [](cdouble v) { return cfloat(v); });
  return result;
}

}  // namespace echotrain::numerics
