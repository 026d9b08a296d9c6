// The steps of ESPIRiT that lead from calibration data to kernels, on each backend; arguments were checked.
#pragma once

#include <algorithm>
#include <limits>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/extents.h"

namespace echotrain::numerics {

/// The middle of k-space, and the kernels' extents. The calibration matrix A has a row for each coil and place of a
/// kernel, and a column for each patch of the middle that a kernel covers.
struct EspiritCalibration {
  DeviceView<const cfloat> kspace;  ///< [coil, z, y, x], of which `extents` from `first` on are the middle
  std::int64_t coils = 0;
  Extents first{}, extents{}, kernel{};
  double threshold = 0;

  std::int64_t samples() const { return volume(extents); }  ///< samples of a coil
  std::int64_t kernel_size() const { return volume(kernel); }
  std::int64_t rows() const { return coils * kernel_size(); }
  Extents fits() const {  ///< patches of each axis
    return {extents[0] - kernel[0] + 1, extents[1] - kernel[1] + 1, extents[2] - kernel[2] + 1};
  }
  std::int64_t patches() const { return volume(fits()); }
  /// The number of offsets between two places of a kernel, on each axis.
  Extents span() const { return {2 * kernel[0] - 1, 2 * kernel[1] - 1, 2 * kernel[2] - 1}; }
  /// The number of rows of the smaller one of A^H A and A A^H; both have the same eigenvalues apart from zeros.
  std::int64_t order() const { return std::min(rows(), patches()); }
  bool by_patches() const { return patches() < rows(); }
  /// The least of these eigenvalues that counts, as a share of the largest; rounding errors lie below it.
  double share() const {
    return std::max(threshold * threshold, static_cast<double>(order()) * std::numeric_limits<double>::epsilon());
  }
};

struct EspiritKernels {
  /// For all pairs (a, b), b <= a, of coils and all offsets d of two places of a kernel: sum over q of P[(a, q + d),
  /// (b, q)] / |kernel|, where P projects patches onto the space that the calibration data span. With it, the operator
  /// that projects every patch of a k-space and averages the results is a convolution across coils, hence a matrix in
  /// each voxel (Uecker et al., eq. 13-17). [pair, z, y, x], offset 0 in the middle.
  Array<cfloat> kernels;
  Array<cfloat> coil;  ///< [coil]: the principal component of the calibration data across coils
};

// clang-format off
ECHOTRAIN_BACKENDS(
EspiritKernels espirit_kernels(Context& context, const EspiritCalibration& calibration);
/// to[pair, z, y, x] = sum over d of kernels[pair, d, y, x] exp(2 pi i d (first + z - n / 2) / n), d counted from the
/// middle of its axis.
void kernels_of_planes(Context& context, DeviceView<const cfloat> kernels, std::int64_t first, std::int64_t n, DeviceView<cfloat> to);
)
// clang-format on

}  // namespace echotrain::numerics
