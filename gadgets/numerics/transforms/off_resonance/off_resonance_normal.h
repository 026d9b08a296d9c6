// The normal operator F^H W F of samples taken in an inhomogeneous field (off-resonance), as a sum of convolutions.
#pragma once

#include <memory>
#include <vector>

#include "gadgets/numerics/inverse/operators/normal_operator.h"
#include "gadgets/numerics/transforms/exact/direct_transform.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "gadgets/numerics/transforms/off_resonance/off_resonance.h"

namespace echotrain::numerics {

/// The element (r, r') of F^H W F is sum_s W_s exp(2 pi i k_s.(r - r')) exp(2 pi i (f(r') - f(r)) t_s). With exp(2 pi i
/// g t) = sum_l b_l(t) exp(2 pi i g T_l) for all differences g of frequencies, F^H W F = sum_l conj(E_l) Q_l E_l, where
/// E_l = exp(2 pi i f T_l) and Q_l is the convolution that the weights W b_l give. The b_l are real, because every
/// difference occurs with either sign, so that each Q_l is a ToeplitzOperator; differences span twice the frequencies,
/// so that there are about twice the segments of one transform, but neither pairs of segments nor transforms to
/// samples. Source: Fessler et al., IEEE TSP 53(9), 2005, sec. IV.
///
/// It is Hermitian to rounding; eigenvalues near 0 may be negative by `accuracy` of the largest.
class OffResonanceNormal final : public NormalOperator {
 public:
  struct Options {
    double accuracy = 1e-3;  ///< accuracy of the segments, relative to the diagonal
    NufftOptions nufft;      ///< options of each Q_l: options_for_accuracy(.., twice the image)
  };
  /// coordinates: [sample, dims], cycles/pixel; weights: [sample]; `field`: for the same samples and image. Waits for
  /// the device. Throws std::invalid_argument as time_segments() does, and for shapes that do not fit.
  OffResonanceNormal(Context& context, HostView<const double> coordinates, HostView<const float> weights,
                     std::shared_ptr<const OffResonance> field, const Options& options);

  std::int64_t segments() const { return static_cast<std::int64_t>(parts_.size()); }
  const Shape& image() const override { return parts_.front()->image(); }
  Backend backend() const override { return parts_.front()->backend(); }
  std::uint64_t bytes() const override;
  double largest() const override { return largest_; }
  double diagonal() const override { return diagonal_; }
  DeviceView<const float> circulant() const override { return circulant_.cview(); }
  void apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const override;
  void apply_sense(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> x,
                   DeviceView<cfloat> y) const override;
  std::shared_ptr<const NormalOperator> copy(Context& context) const override;

 private:
  OffResonanceNormal() = default;
  template <class Convolve>
  void sum(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y, const Convolve& convolve) const;

  std::vector<std::shared_ptr<const NormalOperator>> parts_;  // Q_l
  std::vector<double> at_s_;
  Array<float> field_;      // [image...]
  Array<double> times_;     // [segment]
  Array<float> circulant_;  // [image...]
  double largest_ = 0, diagonal_ = 0;
};

}  // namespace echotrain::numerics
