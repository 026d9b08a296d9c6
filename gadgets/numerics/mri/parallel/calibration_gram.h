// The normal equations of GRAPPA kernels for a block of calibration lines (the calibration region).
#pragma once

#include <vector>

#include "gadgets/numerics/core/dense/hermitian_solve.h"
#include "gadgets/numerics/core/extents.h"
#include "gadgets/numerics/mri/parallel/lattice.h"

namespace echotrain::numerics {

/// A block of k-space without gaps in float64, as sums over x need it: its rows' transforms along x, and the samples at
/// both ends that some places of a kernel miss. Real and imaginary parts are apart, coils filled up with zeros to full
/// tiles. On the host, for both backends.
class CalibrationBlock {
 public:
  /// calibration: [coil, z, y, x]; for kernels that take kernel_x of its samples along x. Waits for the device. Throws
  /// std::invalid_argument where values are not finite.
  CalibrationBlock(Context& context, DeviceView<const cfloat> calibration, std::int64_t kernel_x);
  std::int64_t coils() const { return coils_; }
  const Extents& extents() const { return n_; }  ///< z, y, x
  std::int64_t kernel_x() const { return kernel_x_; }
  std::int64_t step() const { return padded_; }         ///< elements from one row to the next
  std::int64_t frequencies() const { return points_; }  ///< number of frequencies; rows are padded with zeros
  /// All rows, z * y, at a frequency.
  cpu::Planes<const double> frequency(std::int64_t k) const { return plane(memory_, k, points_); }
  /// All rows' samples at x, one of the first or of the last kernel_x - 1.
  cpu::Planes<const double> end(std::int64_t x) const {
    const std::int64_t width = n_[2] - kernel_x_ + 1, ends = 2 * (kernel_x_ - 1);
    return plane(ends_, x < kernel_x_ - 1 ? x : kernel_x_ - 1 + x - width, ends);
  }
  /// The sum of squares of a row's samples from kernel_x / 2 on, over all places of a kernel's target.
  double energy(std::int64_t row) const { return energy_[static_cast<std::size_t>(row)]; }

 private:
  cpu::Planes<const double> plane(const HostArray<double>& of, std::int64_t i, std::int64_t count) const {
    const double* re = of.data() + i * n_[0] * n_[1] * padded_;
    return {re, re + count * n_[0] * n_[1] * padded_};
  }

  std::int64_t coils_, padded_, kernel_x_;
  Extents n_;
  std::int64_t points_;
  HostArray<double> memory_, ends_;  // [re and im, frequency or end, z * y, coil]
  std::vector<double> energy_;
};

/// The least-squares problem of kernels: A A^H and T A^H, where each column of A holds the samples that a kernel takes,
/// [source, dx, coil], and that of T the targets, [target, coil]. There is a column for each place of the block where
/// all of them are inside.
struct CalibrationGram {
  HermitianSystem system;      ///< the matrix, and the targets as right-hand sides; not regularized
  std::vector<double> energy;  ///< for each target, the sum of its coils' squares
};

/// Sums in float64, in an order that does not depend on threads. Sums along x for all dx are correlations, computed
/// from the rows' transforms: one product for each frequency instead of one for each lag, minus the terms at the ends.
/// Throws std::invalid_argument where there is no place, or where kernels have another extent along x than the block is
/// for.
CalibrationGram calibration_gram(Context& context, const CalibrationBlock& block, const KernelRows& rows);

}  // namespace echotrain::numerics
