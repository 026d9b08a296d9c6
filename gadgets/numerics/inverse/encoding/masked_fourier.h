// Sampling on a Cartesian grid of which some points were acquired.
//
// Source: Pruessmann, Weiger, Boernert, Boesiger, "Advances in sensitivity encoding with arbitrary k-space
// trajectories", MRM 46, 2001, where samples lie on a grid.
#pragma once

#include <cstdint>
#include <memory>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/inverse/operators/sampling_operator.h"

namespace echotrain::numerics {

/// F x [k] = (N / P) sum_r x(r) exp(-2 pi i k.r / padded) for the points k of a grid that `mask` keeps, 0 elsewhere,
/// with k and r counted from the centres floor(n / 2): an object of amplitude 1 has the samples that a scan of it
/// gives. N is the number of points of the encoded k-space, P of `padded`. With W = mask P / N^2, F^H W d is the image
/// of docs/conventions.md, (1 / N) sum d exp(+2 pi i k.r / padded), and the eigenvalues of F^H W F lie between 0 and
/// the mask's largest value, whatever the zero-filling and the cut. Elliptic and random patterns, partial Fourier and
/// partial echoes are masks. Encoded points that `padded` has no room for count as not acquired.
class MaskedFourier final : public SamplingOperator {
 public:
  /// encoded: extents of k-space; padded: extents of the transform; image: the middle that is kept, image <= padded.
  /// All have the same two or three axes, slowest first. mask: weights 0..1 of the points [encoded...], or of whole
  /// lines, without the last axis. Throws std::invalid_argument for other shapes and weights. Waits for the device.
  static std::shared_ptr<const MaskedFourier> make(Context& context, HostView<const float> mask, const Shape& encoded,
                                                   const Shape& padded, const Shape& image);
  ~MaskedFourier() override;
  /// True if a transform of `padded` points has room for point i of `encoded` ones.
  ECHOTRAIN_HOST_DEVICE static bool fits(std::int64_t i, std::int64_t encoded, std::int64_t padded) {
    const std::int64_t at = i - encoded / 2 + padded / 2;
    return at >= 0 && at < padded;
  }

  const Shape& image() const override;
  Shape samples(std::int64_t batch) const override;  ///< [batch, encoded...]
  void forward(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> d) const override;
  void adjoint(Context& context, DeviceView<const cfloat> d, DeviceView<cfloat> x) const override;
  std::shared_ptr<const NormalOperator> normal() const override;
  std::uint64_t bytes() const;  ///< memory of this, including that of normal()

  struct Impl;  // defined in masked_fourier_ops.h, for the backends' files

 private:
  explicit MaskedFourier(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace echotrain::numerics
