// The sampling operator of samples anywhere in k-space, by a NUFFT.
#pragma once

#include <memory>

#include "gadgets/numerics/inverse/operators/sampling_operator.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"

namespace echotrain::numerics {

/// F x [s] = sum_r x(r) exp(-2 pi i k_s.r) by a NUFFT plan, weighed by W. Errors are those of the plan's options; the
/// two directions are adjoint up to rounding.
class NufftSampling final : public SamplingOperator {
 public:
  /// plan: the plan for all uses. weights: [sample] or empty (all 1), where the plan's backend computes. normal: F^H W
  /// F of the same samples and image, a ToeplitzOperator as a rule. All are shared. Throws std::invalid_argument when
  /// they do not fit.
  NufftSampling(std::shared_ptr<const NufftPlan> plan, Array<float> weights,
                std::shared_ptr<const NormalOperator> normal);

  const Shape& image() const override { return plan_->image_shape(); }
  Shape samples(std::int64_t batch) const override { return {plan_->samples(), batch}; }
  void forward(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> d) const override;
  void adjoint(Context& context, DeviceView<const cfloat> d, DeviceView<cfloat> x) const override;
  std::shared_ptr<const NormalOperator> normal() const override { return normal_; }

 private:
  std::shared_ptr<const NufftPlan> plan_;
  Array<float> weights_;
  std::shared_ptr<const NormalOperator> normal_;
};

}  // namespace echotrain::numerics
