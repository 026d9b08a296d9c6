#include "gadgets/numerics/inverse/solver/linear_operator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/inverse/operators/map_products.h"
#include "gadgets/numerics/inverse/solver/pcg_ops.h"

namespace echotrain::numerics {
namespace {

void fill(Context& context, DeviceView<float> to, float value) {
  const std::vector<float> values(static_cast<std::size_t>(to.size()), value);
  context.copy<float>(HostView<const float>(values.data(), to.shape()), to);
}

}  // namespace

void PlainNormal::apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const {
  normal_->apply(context, x, y);
}

LinearOperator::Around PlainNormal::around() const {
  const std::int64_t parts = normal_->around_parts();
  return {parts > 0, parts};
}

void PlainNormal::apply_around(Context& context, DeviceView<cfloat> x, DeviceView<cfloat> y,
                               const AroundApply& around) const {
  normal_->apply_around(context, {}, x, y, around);
}

void PlainNormal::diagonal(Context& context, DeviceView<float> diagonal) const {
  fill(context, diagonal, static_cast<float>(normal_->diagonal()));
}

bool PlainNormal::circulant(Context& context, DeviceView<float> eigenvalues, DeviceView<float> share) const {
  context.copy<float>(normal_->circulant(), eigenvalues);
  fill(context, share, 1.0f);
  return true;
}

SenseNormal::SenseNormal(Context& context, std::shared_ptr<const NormalOperator> normal, Array<cfloat> maps,
                         Communicator& others, std::int64_t sets)
    : normal_(std::move(normal)), maps_(std::move(maps)), others_(others), sets_(sets) {
  const Shape& one = normal_->image();
  Shape expected{maps_.shape().rank() > 0 ? maps_.shape()[0] : 0};
  for (const auto e : one) {
    expected.push_back(e);
    image_.push_back(image_.rank() == 0 ? sets * e : e);
  }
  if (!(maps_.shape() == expected) || sets < 1 || expected[0] < sets || expected[0] % sets != 0)
    throw std::invalid_argument(fmt::format("sense: expected coil maps of [coil, ...] of {}{}, got {}", one.text(),
                                            sets == 1 ? "" : fmt::format(" in {} sets", sets), maps_.shape().text()));
  const std::int64_t coils = expected[0] / sets, voxels = image_.size();
  Array<float> power = context.allocate<float>(image_);
  for (std::int64_t i = 0; i < sets; ++i) {
    const cfloat* of_set = maps_.data() + i * coils * one.size();
    ECHOTRAIN_DISPATCH(context, map_power(context, of_set, coils, one.size(), power.data() + i * one.size()));
  }
  others_.sum(context, power.view());
  const HostArray<float> host = context.download<float>(power.cview());
  std::vector<float> diagonal(host.data(), host.data() + voxels), share = diagonal;
  if (!std::all_of(share.begin(), share.end(), [](float p) { return std::isfinite(p); }))
    throw std::invalid_argument("sense: coil maps are not finite");
  largest_power_ = on_host::extremes(context.threads(), host.view()).most;
  if (largest_power_ == 0) throw std::invalid_argument("sense: coil maps are all zero");
  constexpr float kLeastShare = 0.1f;
  for (float& p : share) p = std::max(kLeastShare, std::sqrt(p / largest_power_));
  for (float& d : diagonal) d *= static_cast<float>(normal_->diagonal());
  diagonal_ = context.upload<float>({diagonal.data(), image_});
  share_ = context.upload<float>({share.data(), image_});
}

void SenseNormal::apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const {
  const std::int64_t items = x.shape() == image_ ? 1 : x.shape()[0];
  for (std::int64_t i = 0; i < items; ++i) {
    const auto from = x.part(i * image_.size(), image_);
    const auto to = y.part(i * image_.size(), image_);
    if (sets_ == 1)
      normal_->apply_sense(context, maps_.cview(), from, to);
    else
      apply_sets(context, from, to);
  }
  others_.sum(context, y);
}

LinearOperator::Around SenseNormal::around() const {
  return {false, sets_ == 1 && others_.size() == 1 ? normal_->around_parts() : 0};
}

void SenseNormal::apply_around(Context& context, DeviceView<cfloat> x, DeviceView<cfloat> y,
                               const AroundApply& around) const {
  const std::int64_t items = x.size() / image_.size();
  for (std::int64_t i = 0; i < items; ++i) {
    AroundApply one = around;
    one.product += i;
    one.partial += i * normal_->around_parts();
    one.arrived += i;
    normal_->apply_around(context, maps_.cview(), x.part(i * image_.size(), image_), y.part(i * image_.size(), image_),
                          one);
  }
}

void SenseNormal::apply_sets(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const {
  Shape coils{maps_.shape()[0] / sets_}, images{sets_};
  for (const auto e : normal_->image()) {
    coils.push_back(e);
    images.push_back(e);
  }
  Array<cfloat> of_coils = context.allocate<cfloat>(coils), measured = context.allocate<cfloat>(coils);
  spread_to_coils(context, maps_.cview(), x.reshaped(images), of_coils.view(), sets_);
  normal_->apply(context, of_coils.cview(), measured.view());
  gather_from_coils(context, maps_.cview(), measured.cview(), y.reshaped(images), sets_);
}

void SenseNormal::diagonal(Context& context, DeviceView<float> diagonal) const {
  context.copy<float>(diagonal_.cview(), diagonal);
}

bool SenseNormal::circulant(Context& context, DeviceView<float> eigenvalues, DeviceView<float> share) const {
  if (sets_ > 1) return false;
  const HostArray<float> host = context.download<float>(normal_->circulant());
  std::vector<float> scaled(host.data(), host.data() + host.size());
  for (float& e : scaled) e *= largest_power_;
  context.copy<float>(HostView<const float>(scaled.data(), eigenvalues.shape()), eigenvalues);
  context.copy<float>(share_.cview(), share);
  return true;
}

}  // namespace echotrain::numerics
