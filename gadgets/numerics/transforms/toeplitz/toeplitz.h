// The normal operator F^H W F as a convolution (Toeplitz embedding), with Fourier transforms of doubled size.
//
// Sources: Fessler, Lee, Olafsson, Shi, Noll, "Toeplitz-based iterative image reconstruction for MRI with correction
// for magnetic field inhomogeneity", IEEE TSP 53(9), 2005; Stone et al., JPDC 68, 2008, sec. 2.2 (docs/seeds.md).
#pragma once

#include <cstdint>
#include <memory>

#include "gadgets/numerics/inverse/operators/normal_operator.h"
#include "gadgets/numerics/transforms/exact/direct_transform.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"

namespace echotrain::numerics {

/// (T x)[r] = sum_r' q[r - r'] x[r'] for all voxels r, r' of an image of 2 or 3 axes. Immutable, so that frames and
/// sessions of the same backend can share it.
class ToeplitzOperator final : public NormalOperator {
 public:
  /// q: [2n...], where the context computes: lags in FFT order as point_spread() gives them; lags -n are ignored. Waits
  /// for the device. Throws std::invalid_argument when the shape is not valid, or q is not finite or not Hermitian (its
  /// spectrum then has an imaginary part of more than 1e-5 of its largest value); a smaller one is rounding, and
  /// dropped.
  ToeplitzOperator(Context& context, DeviceView<const cfloat> q);
  ~ToeplitzOperator() override;

  const Shape& image() const override;
  const Shape& grid() const;  ///< extents of the transforms: even, >= 2n
  Backend backend() const override;
  std::uint64_t bytes() const override;
  /// The smallest value of the spectrum on the grid. No eigenvalue of T lies below it; it may be somewhat negative even
  /// if T has no negative eigenvalue.
  double smallest() const;
  double largest() const override;
  double diagonal() const override;  ///< q[0]
  /// The circulant matrix next to T in the Frobenius norm (T. Chan, "An optimal circulant preconditioner for Toeplitz
  /// systems", SISC 9, 1988).
  DeviceView<const float> circulant() const override;

  /// y = T x, with a relative error of about 1e-6.
  void apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const override;
  void apply_sense(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> x,
                   DeviceView<cfloat> y) const override;
  std::int64_t around_parts() const override;
  void apply_around(Context& context, DeviceView<const cfloat> maps, DeviceView<cfloat> x, DeviceView<cfloat> y,
                    const AroundApply& around) const override;
  std::shared_ptr<const NormalOperator> copy(Context& context) const override;

  struct Impl;

 private:
  explicit ToeplitzOperator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The shape of the lags that point_spread_nufft() computes of Q: half of the slowest axis gives the other half.
Shape lag_image(const Shape& image);
/// Does point_spread() by a NUFFT plan: much faster, with the error of expected_error(options, lag_image(image)), and
/// Hermitian up to rounding. Arguments are as there.
void point_spread_nufft(Context& context, HostView<const double> coordinates, HostView<const float> weights,
                        const Shape& image, VoxelBasis basis, const NufftOptions& options, DeviceView<cfloat> q);

}  // namespace echotrain::numerics
