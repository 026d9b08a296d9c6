// Plain GRAPPA follows its definitions in float64: equations written out, rows filled one sample at a time.
#pragma once

#include <Eigen/Dense>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "gadgets/numerics/mri/parallel/grappa_fit.h"
#include "tests/support/backends.h"

namespace echotrain::testing {

using numerics::cdouble;
using numerics::cfloat;
using numerics::GrappaKernel;
using numerics::GrappaKernels;
using numerics::Lattice;
using numerics::RowPlan;
using numerics::RowStep;

/// K-space [coil, z, y, x] in float64.
struct KSpaceOfTest {
  std::int64_t coils, nz, ny, nx;
  std::vector<cdouble> data;

  KSpaceOfTest(std::int64_t c, std::int64_t z, std::int64_t y, std::int64_t x)
      : coils(c), nz(z), ny(y), nx(x), data(static_cast<std::size_t>(c * z * y * x)) {}
  cdouble& at(std::int64_t c, std::int64_t z, std::int64_t y, std::int64_t x) {
    return data[static_cast<std::size_t>(((c * nz + z) * ny + y) * nx + x)];
  }
  const cdouble& at(std::int64_t c, std::int64_t z, std::int64_t y, std::int64_t x) const {
    return data[static_cast<std::size_t>(((c * nz + z) * ny + y) * nx + x)];
  }
  numerics::Shape shape() const { return {coils, nz, ny, nx}; }
  std::vector<cfloat> single() const { return {data.begin(), data.end()}; }
};

/// Noise whose neighbours, in k-space and among coils, are alike: what a small object gives.
inline KSpaceOfTest correlated_kspace(std::int64_t coils, std::int64_t nz, std::int64_t ny, std::int64_t nx,
                                      unsigned seed, double noise = 0.05) {
  Random random(seed);
  KSpaceOfTest k(coils, nz, ny, nx);
  for (int source = 0; source < 12; ++source) {
    const double px = random.uniform(-0.3, 0.3), py = random.uniform(-0.3, 0.3), pz = random.uniform(-0.3, 0.3);
    const cdouble strength(random.normal());
    for (std::int64_t c = 0; c < coils; ++c) {
      const double a = 2 * std::numbers::pi * static_cast<double>(c) / static_cast<double>(coils);
      const cdouble seen =
          strength * std::polar(std::exp(1.5 * (px * std::cos(a) + (py + pz) * std::sin(a))), 2 * py + a);
      for (std::int64_t z = 0; z < nz; ++z)
        for (std::int64_t y = 0; y < ny; ++y)
          for (std::int64_t x = 0; x < nx; ++x)
            k.at(c, z, y, x) += seen * std::polar(1.0, 2 * std::numbers::pi *
                                                           (px * static_cast<double>(x) + py * static_cast<double>(y) +
                                                            pz * static_cast<double>(z)));
    }
  }
  for (cdouble& v : k.data) v += noise * cdouble(random.normal());
  for (cdouble& v : k.data) v = cdouble(cfloat(v));
  return k;
}

/// Equations of a class written out: a column for each place of the block that has the target and all sources inside.
struct PlainFit {
  std::vector<RowStep> sources;
  std::int64_t kernel_x, coils;
  Eigen::MatrixXcd a, t;

  PlainFit(const KSpaceOfTest& block, const std::vector<RowStep>& steps, std::int64_t width)
      : sources(steps), kernel_x(width), coils(block.coils) {
    std::vector<cdouble> columns, targets;
    const std::int64_t h = width / 2;
    std::int64_t n = 0;
    for (std::int64_t z = 0; z < block.nz; ++z)
      for (std::int64_t y = 0; y < block.ny; ++y)
        for (std::int64_t x = h; x + width - 1 - h < block.nx; ++x) {
          bool inside = true;
          for (const RowStep& s : steps)
            inside = inside && y - s[0] >= 0 && y - s[0] < block.ny && z - s[1] >= 0 && z - s[1] < block.nz;
          if (!inside) continue;
          ++n;
          for (const RowStep& s : steps)
            for (std::int64_t dx = 0; dx < width; ++dx)
              for (std::int64_t c = 0; c < coils; ++c) columns.push_back(block.at(c, z - s[1], y - s[0], x + dx - h));
          for (std::int64_t c = 0; c < coils; ++c) targets.push_back(block.at(c, z, y, x));
        }
    a = Eigen::Map<Eigen::MatrixXcd>(columns.data(), static_cast<Eigen::Index>(columns.size()) / n, n);
    t = Eigen::Map<Eigen::MatrixXcd>(targets.data(), coils, n);
  }

  /// As GrappaOptions::regularization says.
  double share(double regularization) const {
    return regularization * std::pow(std::min(1.0, static_cast<double>(a.rows()) / static_cast<double>(a.cols())), 3);
  }
  /// The kernel of some of the sources; lambda is a share of the mean of all sources' diagonal.
  Eigen::MatrixXcd kernel(const std::vector<RowStep>& used, double lambda_share) const {
    const double mean = a.squaredNorm() / static_cast<double>(a.rows());
    const Eigen::Index n = kernel_x * coils;
    Eigen::MatrixXcd some(static_cast<Eigen::Index>(used.size()) * n, a.cols());
    for (std::size_t i = 0; i < used.size(); ++i) {
      std::size_t j = 0;
      while (sources[j] != used[i]) ++j;
      some.middleRows(static_cast<Eigen::Index>(i) * n, n) = a.middleRows(static_cast<Eigen::Index>(j) * n, n);
    }
    Eigen::MatrixXcd gram = some * some.adjoint();
    gram.diagonal().array() += lambda_share * mean;
    return t * some.adjoint() * gram.fullPivLu().inverse();
  }
  double residual(const Eigen::MatrixXcd& w) const { return (t - w * a).norm() / t.norm(); }
};

/// Kernels with their weights on the host.
struct KernelsOfTest : GrappaKernels {
  std::vector<cfloat> values;

  KernelsOfTest(numerics::Context& context, const GrappaKernels& made) : GrappaKernels(made) {
    const auto host = context.download<cfloat>(made.weights.view());
    values.assign(host.data(), host.data() + host.size());
  }
  std::int64_t unknowns(const GrappaKernel& kernel) const {
    return static_cast<std::int64_t>(kernel.sources.size()) * kernel_x * coils;
  }
  cdouble weight(const GrappaKernel& kernel, std::int64_t coil, std::int64_t element) const {
    return values[static_cast<std::size_t>(kernel.first + coil * unknowns(kernel) + element)];
  }
  /// The weights of a kernel as [coil, (source, dx, source coil)].
  Eigen::MatrixXcd matrix(const GrappaKernel& kernel) const {
    Eigen::MatrixXcd w(coils, unknowns(kernel));
    for (Eigen::Index c = 0; c < w.rows(); ++c)
      for (Eigen::Index j = 0; j < w.cols(); ++j) w(c, j) = weight(kernel, c, j);
    return w;
  }
};

/// Lattice rows as they are, put-back rows as they are, others as their kernel predicts them. Along x kernels wrap
/// round or see zeros beyond the ends.
inline KSpaceOfTest plain_filling(const KernelsOfTest& kernels, const RowPlan& rows, const KSpaceOfTest& k,
                                  bool wrap_x) {
  KSpaceOfTest out(k.coils, k.nz, k.ny, k.nx);
  const std::int64_t h = kernels.kernel_x / 2;
  for (std::int64_t z = 0; z < k.nz; ++z)
    for (std::int64_t y = 0; y < k.ny; ++y) {
      const auto row = static_cast<std::size_t>(z * k.ny + y);
      for (std::int64_t c = 0; c < k.coils; ++c)
        for (std::int64_t x = 0; x < k.nx; ++x) {
          cdouble& to = out.at(c, z, y, x);
          if (rows.kind[row] != RowPlan::missing) {
            to = k.at(c, z, y, x);
            continue;
          }
          if (kernels.of_row[row] < 0) continue;
          const GrappaKernel& kernel = kernels.kernels[static_cast<std::size_t>(kernels.of_row[row])];
          std::int64_t j = 0;
          for (const RowStep& s : kernel.sources)
            for (std::int64_t dx = 0; dx < kernels.kernel_x; ++dx)
              for (std::int64_t from = 0; from < k.coils; ++from, ++j) {
                std::int64_t at = x + dx - h;
                if (!wrap_x && (at < 0 || at >= k.nx)) continue;
                at = (at + k.nx) % k.nx;
                to += kernels.weight(kernel, c, j) * k.at(from, z - s[1], y - s[0], at);
              }
        }
    }
  return out;
}

}  // namespace echotrain::testing
