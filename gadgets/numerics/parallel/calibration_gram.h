// The equations that a block of calibration lines gives for kernels, as the sums that least squares needs.
#pragma once

#include <vector>

#include "gadgets/numerics/core/extents.h"
#include "gadgets/numerics/dense/hermitian_solve.h"
#include "gadgets/numerics/parallel/lattice.h"

namespace echotrain::numerics {

/// A block of k-space without gaps in float64, real and imaginary parts apart: [z * y, x, coil], coils filled up with
/// zeros to full tiles. On the host, for both backends.
class CalibrationBlock {
 public:
  /// calibration: [coil, z, y, x]. Waits for the device. std::invalid_argument where values are not finite.
  CalibrationBlock(Context& context, DeviceView<const cfloat> calibration);
  std::int64_t coils() const { return coils_; }
  const Extents& extents() const { return n_; }          ///< z, y, x
  std::int64_t step() const { return padded_; }          ///< elements from one x to the next
  cpu::Planes<const double> row(std::int64_t r) const {  ///< r = z * y extent + y
    const double* re = memory_.data() + r * n_[2] * padded_;
    return {re, re + volume(n_) * padded_};
  }

 private:
  std::int64_t coils_, padded_;
  Extents n_;
  HostArray<double> memory_;
};

/// The least-squares problem of kernels: A A^H and T A^H, where each column of A holds the samples that a kernel takes,
/// [source, dx, coil], and that of T what they are to give, [target, coil]. A column for each place of the block where
/// all of them are inside.
struct CalibrationGram {
  HermitianSystem system;      ///< the matrix, and the targets as right-hand sides; not regularized
  std::vector<double> energy;  ///< of each target, the sum of its coils' squares
};

/// All sums in float64, in an order that does not depend on threads. Samples that lie as far apart are multiplied once
/// for all pairs of kernel elements that need them, and the sums for these differ in the places that they begin and end
/// with. std::invalid_argument where there is no place.
CalibrationGram calibration_gram(Context& context, const CalibrationBlock& block, const KernelRows& rows);

}  // namespace echotrain::numerics
