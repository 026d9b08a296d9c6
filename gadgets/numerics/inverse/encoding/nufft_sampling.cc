#include "gadgets/numerics/inverse/encoding/nufft_sampling.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace echotrain::numerics {

NufftSampling::NufftSampling(std::shared_ptr<const NufftPlan> plan, Array<float> weights,
                             std::shared_ptr<const NormalOperator> normal)
    : plan_(std::move(plan)), weights_(std::move(weights)), normal_(std::move(normal)) {
  const auto require = [](bool good, const std::string& problem) {
    if (!good) throw std::invalid_argument("nufft sampling: " + problem);
  };
  require(plan_->options().use == NufftUse::all, "the plan is not for the forward transform");
  require(!weights_ || weights_.shape() == Shape{plan_->samples()},
          fmt::format("{} weights for {} samples", weights_.size(), plan_->samples()));
  require(normal_->image() == plan_->image_shape(),
          fmt::format("F^H W F is for {}, the plan for {}", normal_->image().text(), plan_->image_shape().text()));
  require(normal_->backend() == plan_->backend(), "F^H W F was made for another backend");
}

void NufftSampling::forward(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> d) const {
  plan_->forward(context, x, d);
}

void NufftSampling::adjoint(Context& context, DeviceView<const cfloat> d, DeviceView<cfloat> x) const {
  plan_->adjoint(context, d, weights_ ? weights_.view() : DeviceView<const float>{}, x);
}

}  // namespace echotrain::numerics
