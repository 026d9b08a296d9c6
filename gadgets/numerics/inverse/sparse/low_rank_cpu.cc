#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "gadgets/numerics/core/heap_account.h"
#include "gadgets/numerics/inverse/sparse/low_rank_ops.h"

namespace echotrain::numerics::cpu {
namespace {

/// Shrinks one block, or sums its singular values.
double work_on_block(const LowRankGrid& g, const LowRankBlock& block, double threshold, bool sum, cfloat* series) {
  const std::int64_t voxels = block.voxels(), size = g.frame_size();
  // Eigen allocates with malloc: the block before and after, and the square matrices between.
  const std::size_t few = static_cast<std::size_t>(std::min(g.frames, voxels));
  const HeapCharge paid(sizeof(cdouble) * (2 * static_cast<std::size_t>(voxels * g.frames) + 4 * few * few));
  Eigen::MatrixXcd x(voxels, g.frames);
  for (std::int64_t f = 0; f < g.frames; ++f)
    for (std::int64_t v = 0; v < voxels; ++v) x(v, f) = cdouble(series[f * size + g.voxel(block, v)]);
  const bool by_frames = g.frames <= voxels;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXcd> eigen(by_frames ? Eigen::MatrixXcd(x.adjoint() * x)
                                                                        : Eigen::MatrixXcd(x * x.adjoint()));
  const Eigen::ArrayXd values = eigen.eigenvalues().array().max(0).sqrt();
  if (sum) return values.sum();
  const Eigen::ArrayXd kept = values.unaryExpr([&](double s) { return s <= threshold ? 0 : 1 - threshold / s; });
  const Eigen::MatrixXcd& v = eigen.eigenvectors();
  const Eigen::MatrixXcd factor = v * kept.matrix().cast<cdouble>().asDiagonal() * v.adjoint();
  const Eigen::MatrixXcd shrunk = by_frames ? Eigen::MatrixXcd(x * factor) : Eigen::MatrixXcd(factor * x);
  for (std::int64_t f = 0; f < g.frames; ++f)
    for (std::int64_t i = 0; i < voxels; ++i)
      series[f * size + g.voxel(block, i)] =
          cfloat(static_cast<float>(shrunk(i, f).real()), static_cast<float>(shrunk(i, f).imag()));
  return 0;
}

}  // namespace

void low_rank(Context& context, const LowRankGrid& grid, double threshold, cfloat* series, double* sums) {
  context.threads().parallel_for(grid.count(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      context.check_stop();
      const double sum = work_on_block(grid, grid.at(b), threshold, sums != nullptr, series);
      if (sums != nullptr) sums[b] = sum;
    }
  });
}

}  // namespace echotrain::numerics::cpu
