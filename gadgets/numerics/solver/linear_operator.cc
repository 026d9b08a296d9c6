#include "gadgets/numerics/solver/linear_operator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/reduce/reductions.h"
#include "gadgets/numerics/solver/pcg_ops.h"

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

void PlainNormal::diagonal(Context& context, DeviceView<float> diagonal) const {
  fill(context, diagonal, static_cast<float>(normal_->diagonal()));
}

bool PlainNormal::circulant(Context& context, DeviceView<float> eigenvalues, DeviceView<float> share) const {
  context.copy<float>(normal_->circulant(), eigenvalues);
  fill(context, share, 1.0f);
  return true;
}

SenseNormal::SenseNormal(Context& context, std::shared_ptr<const NormalOperator> normal, Array<cfloat> maps,
                         Communicator& others)
    : normal_(std::move(normal)), maps_(std::move(maps)), others_(others) {
  const Shape& image = normal_->image();
  Shape expected{maps_.shape().rank() > 0 ? maps_.shape()[0] : 0};
  for (const auto e : image) expected.push_back(e);
  if (!(maps_.shape() == expected) || expected[0] < 1)
    throw std::invalid_argument(
        fmt::format("sense: expected coil maps of [coil, ...] of {}, got {}", image.text(), maps_.shape().text()));
  const std::int64_t voxels = image.size();
  Array<float> power = context.allocate<float>(image);
  ECHOTRAIN_DISPATCH(context, map_power(context, maps_.data(), expected[0], voxels, power.data()));
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
  diagonal_ = context.upload<float>({diagonal.data(), image});
  share_ = context.upload<float>({share.data(), image});
}

void SenseNormal::apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const {
  if (x.shape() == image()) {
    normal_->apply_sense(context, maps_.cview(), x, y);
  } else {
    for (std::int64_t i = 0; i < x.shape()[0]; ++i)
      normal_->apply_sense(context, maps_.cview(), x.slice(i), y.slice(i));
  }
  others_.sum(context, y);
}

void SenseNormal::diagonal(Context& context, DeviceView<float> diagonal) const {
  context.copy<float>(diagonal_.cview(), diagonal);
}

bool SenseNormal::circulant(Context& context, DeviceView<float> eigenvalues, DeviceView<float> share) const {
  const HostArray<float> host = context.download<float>(normal_->circulant());
  std::vector<float> scaled(host.data(), host.data() + host.size());
  for (float& e : scaled) e *= largest_power_;
  context.copy<float>(HostView<const float>(scaled.data(), eigenvalues.shape()), eigenvalues);
  context.copy<float>(share_.cview(), share);
  return true;
}

}  // namespace echotrain::numerics
