#include "gadgets/numerics/transforms/off_resonance/off_resonance_normal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/transforms/off_resonance/off_resonance_ops.h"
#include "gadgets/numerics/transforms/toeplitz/toeplitz.h"

namespace echotrain::numerics {
namespace {

void demand(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("off-resonance: " + problem);
}

}  // namespace

OffResonanceNormal::OffResonanceNormal(Context& context, HostView<const double> coordinates,
                                       HostView<const float> weights, std::shared_ptr<const OffResonance> field,
                                       const Options& options) {
  const std::int64_t count = coordinates.shape()[0];
  demand(weights.size() == count, fmt::format("{} weights for {} samples", weights.size(), count));
  const TimeSegments segments =
      time_segments(context, differences(field->histogram()), field->times_s(), options.accuracy);
  at_s_ = segments.at_s;
  const auto times = static_cast<std::int64_t>(field->times_s().size());
  Shape lags;
  for (const auto e : field->image()) lags.push_back(2 * e);
  MemoryShare(context.account()).grow_to(static_cast<std::uint64_t>(count) * sizeof(float));  // makes room for it
  std::vector<float> scaled(static_cast<std::size_t>(count));
  HostArray<float> sum = context.allocate_host<float>(field->image());
  std::fill(sum.data(), sum.data() + sum.size(), 0.0f);
  for (std::int64_t l = 0; l < segments.count(); ++l) {
    context.check_stop();
    for (std::int64_t s = 0; s < count; ++s)
      scaled[static_cast<std::size_t>(s)] =
          static_cast<float>(static_cast<double>(weights[s]) *
                             segments.weights[static_cast<std::size_t>(s % times * segments.count() + l)].real());
    Array<cfloat> q = context.allocate<cfloat>(lags);
    point_spread_nufft(context, coordinates, {scaled.data(), {count}}, field->image(), VoxelBasis::delta, options.nufft,
                       q.view());
    const auto part = std::make_shared<const ToeplitzOperator>(context, q.cview());
    const HostArray<float> circulant = context.download<float>(part->circulant());
    for (std::int64_t v = 0; v < sum.size(); ++v) sum.data()[v] += circulant.data()[v];
    largest_ += std::max(std::abs(part->largest()), std::abs(part->smallest()));
    diagonal_ += part->diagonal();
    parts_.push_back(part);
  }
  // For voxels of one frequency, the matrix is the sum of all Q_l, none of whose eigenvalues is negative.
  for (std::int64_t v = 0; v < sum.size(); ++v) sum.data()[v] = std::max(sum.data()[v], 0.0f);
  circulant_ = context.allocate<float>(field->image());
  context.copy<float>(sum.view(), circulant_.view());
  field_ = field->copy_field(context);
  times_ = context.upload<double>({at_s_.data(), {segments.count()}});
  context.synchronize();
}

std::uint64_t OffResonanceNormal::bytes() const {
  std::uint64_t all = static_cast<std::uint64_t>(field_.size() + circulant_.size()) * sizeof(float);
  for (const auto& part : parts_) all += part->bytes();
  return all;
}

/// y = sum_l conj(E_l) convolve_l(E_l x), segment after segment.
template <class Convolve>
void OffResonanceNormal::sum(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y,
                             const Convolve& convolve) const {
  demand(context.backend() == backend(), "the operator was made for another backend");
  demand(x.shape() == y.shape() && x.shape().rank() >= image().rank() && image().size() > 0 &&
             x.shape().size() % image().size() == 0,
         fmt::format("expected images of {}, got {} and {}", image().text(), x.shape().text(), y.shape().text()));
  if (x.size() == 0) return;
  Array<cfloat> turned = context.allocate<cfloat>(x.shape()), part = context.allocate<cfloat>(x.shape());
  FieldPhases p{.field_hz = field_.data(), .at_s = times_.data(), .voxels = image().size(), .sign = 1};
  for (std::int64_t l = 0; l < segments(); ++l) {
    const SegmentJob job{.coils = x.size() / p.voxels, .first = l, .count = 1, .of = segments()};
    p.sign = 1;
    ECHOTRAIN_DISPATCH(context, spread_segments(context, job, p, x.data(), turned.data()));
    convolve(*parts_[static_cast<std::size_t>(l)], turned.cview(), part.view());
    p.sign = -1;
    ECHOTRAIN_DISPATCH(context, gather_segments(context, job, p, part.data(), y.data()));
  }
}

void OffResonanceNormal::apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const {
  sum(context, x, y, [&](const NormalOperator& part, DeviceView<const cfloat> from, DeviceView<cfloat> to) {
    part.apply(context, from, to);
  });
}

void OffResonanceNormal::apply_sense(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> x,
                                     DeviceView<cfloat> y) const {
  sum(context, x, y, [&](const NormalOperator& part, DeviceView<const cfloat> from, DeviceView<cfloat> to) {
    part.apply_sense(context, maps, from, to);
  });
}

std::shared_ptr<const NormalOperator> OffResonanceNormal::copy(Context& context) const {
  demand(context.backend() == backend(), "the operator was made for another backend");
  std::shared_ptr<OffResonanceNormal> other(new OffResonanceNormal());
  other->at_s_ = at_s_;
  other->largest_ = largest_;
  other->diagonal_ = diagonal_;
  for (const auto& part : parts_) other->parts_.push_back(part->copy(context));
  other->field_ = context.allocate<float>(field_.shape());
  other->times_ = context.upload<double>({at_s_.data(), {segments()}});
  other->circulant_ = context.allocate<float>(circulant_.shape());
  context.copy<float>(field_.cview(), other->field_.view());
  context.copy<float>(circulant_.cview(), other->circulant_.view());
  context.synchronize();
  return other;
}

}  // namespace echotrain::numerics
