// F^H W F as a convolution, with Fourier transforms of doubled size.
//
// Sources: Fessler, Lee, Olafsson, Shi, Noll, "Toeplitz-based iterative image reconstruction for MRI with correction
// for magnetic field inhomogeneity", IEEE TSP 53(9), 2005; Stone et al., JPDC 68, 2008, sec. 2.2 (docs/seeds.md).
#pragma once

#include <cstdint>
#include <memory>

#include "gadgets/numerics/exact/direct_transform.h"
#include "gadgets/numerics/nufft/nufft.h"

namespace echotrain::numerics {

/// (T x)[r] = sum_r' q[r - r'] x[r'] for all voxels r, r' of an image of 2 or 3 axes. Immutable, so that frames and
/// sessions of the same backend can share it.
class ToeplitzOperator {
 public:
  /// q: [2n...], where the context computes: lags in FFT order as point_spread() gives them; lags -n are ignored. Waits
  /// for the device. std::invalid_argument when the shape is not valid, or q is not finite or not Hermitian (its
  /// spectrum then has an imaginary part of more than 1e-3 of its largest value); rounding is dropped.
  ToeplitzOperator(Context& context, DeviceView<const cfloat> q);
  ~ToeplitzOperator();
  ToeplitzOperator(ToeplitzOperator&&) noexcept;
  ToeplitzOperator& operator=(ToeplitzOperator&&) noexcept;

  /// The same where another context of this backend computes. Waits for `context`; this one's work must be done.
  ToeplitzOperator copy(Context& context) const;

  const Shape& image() const;  ///< [n...]
  const Shape& grid() const;   ///< of the transforms: even, >= 2n
  Backend backend() const;
  std::uint64_t bytes() const;  ///< memory it holds
  /// Extremes of the spectrum on the grid. No eigenvalue of T lies beyond them; the smallest may be somewhat negative
  /// even if T has no negative eigenvalue.
  double smallest() const;
  double largest() const;
  double diagonal() const;  ///< q[0], which is T's diagonal
  /// Eigenvalues of the circulant matrix next to T in the Frobenius norm (T. Chan, "An optimal circulant preconditioner
  /// for Toeplitz systems", SISC 9, 1988), in FFT order, unscaled: C x = IFFT(circulant() FFT(x)) / voxels. [image...]
  DeviceView<const float> circulant() const;

  /// y = T x. x, y: [batch, image...], or [image...]. Relative error about 1e-6.
  void apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const;
  /// y = sum_c conj(maps_c) T (maps_c x). maps: [coil, image...]; x, y: [image...], not the same memory. Coils are
  /// added in their order, whatever the number of threads.
  void apply_sense(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> x,
                   DeviceView<cfloat> y) const;

  struct Impl;

 private:
  explicit ToeplitzOperator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// point_spread() through a NUFFT plan: much faster, with the error of expected_error(options, doubled image), and
/// Hermitian but for rounding. Arguments are as there.
void point_spread_nufft(Context& context, HostView<const double> coordinates, HostView<const float> weights,
                        const Shape& image, VoxelBasis basis, const NufftOptions& options, DeviceView<cfloat> q);

}  // namespace echotrain::numerics
