#include "gadgets/numerics/transforms/off_resonance/off_resonance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/transforms/off_resonance/off_resonance_ops.h"

namespace echotrain::numerics {
namespace {

/// Bytes of segments' samples, images and grids at a time.
constexpr std::int64_t kBytes = 64ll << 20, kBytesCuda = 8ll << 30;

void require(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("off-resonance: " + problem);
}

Shape with_items(std::int64_t items, const Shape& image) {
  Shape out{items};
  for (const auto e : image) out.push_back(e);
  return out;
}

}  // namespace

std::shared_ptr<const OffResonance> OffResonance::make(Context& context, HostView<const float> field_hz,
                                                       std::vector<double> times_s, double accuracy) {
  require(!times_s.empty(), "there are no times");
  require(std::all_of(times_s.begin(), times_s.end(), [](double t) { return std::isfinite(t); }),
          "times are not finite numbers");
  require(field_hz.shape().rank() >= 1 && field_hz.shape().rank() <= 3,
          "a field map has one to three axes, not " + field_hz.shape().text());
  const auto [least, most] = std::minmax_element(times_s.begin(), times_s.end());
  std::shared_ptr<OffResonance> made(new OffResonance());
  made->backend_ = context.backend();
  made->histogram_ = field_histogram(field_hz, *most - *least);
  made->segments_ = time_segments(context, made->histogram_, times_s, accuracy);
  made->times_s_ = std::move(times_s);
  const TimeSegments& segments = made->segments_;
  std::vector<cfloat> weights;
  weights.reserve(segments.weights.size());
  for (const cdouble& w : segments.weights) weights.emplace_back(w);
  made->field_ = context.upload<float>(field_hz);
  made->weights_ =
      context.upload<cfloat>({weights.data(), {static_cast<std::int64_t>(made->times_s_.size()), segments.count()}});
  made->at_s_ = context.upload<double>({segments.at_s.data(), {segments.count()}});
  made->segments_.weights = {};  // they are on the context's device now
  context.synchronize();         // from here on it may be used on other streams
  return made;
}

Array<float> OffResonance::copy_field(Context& context) const {
  Array<float> copy = context.allocate<float>(field_.shape());
  context.copy<float>(field_.cview(), copy.view());
  return copy;
}

std::uint64_t OffResonance::bytes() const {
  return static_cast<std::uint64_t>(field_.size()) * sizeof(float) +
         static_cast<std::uint64_t>(weights_.size()) * sizeof(cfloat) +
         static_cast<std::uint64_t>(at_s_.size()) * sizeof(double);
}

void OffResonance::split(Context& context, std::int64_t first, DeviceView<const cfloat> samples,
                         DeviceView<cfloat> split) const {
  const Shape& shape = samples.shape();
  require(context.backend() == backend_, "it was made for another backend");
  require(
      first >= 0 && shape.rank() == 2 && split.shape() == Shape{shape[0], segments() * shape[1]},
      fmt::format("samples {} cannot be split into {} segments of {}", shape.text(), segments(), split.shape().text()));
  if (samples.size() == 0) return;
  const SegmentJob job{.coils = shape[1], .first = 0, .count = segments(), .of = segments()};
  const TimeWeights w{.weights = weights_.data(), .times = weights_.shape()[0], .first = first, .samples = shape[0]};
  ECHOTRAIN_DISPATCH(context, split_samples(context, job, w, samples.data(), split.data()));
}

void OffResonance::gather(Context& context, DeviceView<const cfloat> images, DeviceView<cfloat> image) const {
  require(context.backend() == backend_, "it was made for another backend");
  const std::int64_t coils = image.shape().rank() == 0 ? 0 : image.shape()[0];
  require(image.shape() == with_items(coils, this->image()) &&
              images.shape() == with_items(coils * segments(), this->image()),
          fmt::format("{} is not {} segments of {}, for a field map of {}", images.shape().text(), segments(),
                      image.shape().text(), this->image().text()));
  if (image.size() == 0) return;
  const SegmentJob job{.coils = coils, .first = 0, .count = segments(), .of = segments()};
  const FieldPhases p{.field_hz = field_.data(), .at_s = at_s_.data(), .voxels = this->image().size(), .sign = -1};
  ECHOTRAIN_DISPATCH(context, gather_segments(context, job, p, images.data(), image.data()));
}

void OffResonance::check(const Context& context, const NufftPlan& plan, const Shape& samples,
                         const Shape& image) const {
  require(context.backend() == backend_ && plan.backend() == backend_, "it was made for another backend");
  require(plan.image_shape() == this->image(),
          fmt::format("the field map is {}, the plan's image {}", this->image().text(), plan.image_shape().text()));
  require(samples.rank() == 2 && samples[0] == plan.samples(),
          fmt::format("expected samples of shape [{}, coil], got {}", plan.samples(), samples.text()));
  require(image == with_items(samples[1], this->image()),
          fmt::format("{} is not [{} coils] of {}", image.text(), samples[1], this->image().text()));
}

std::int64_t OffResonance::segments_at_a_time(std::int64_t coils, const NufftPlan& plan,
                                              std::int64_t most_bytes) const {
  const std::int64_t each =
      static_cast<std::int64_t>(sizeof(cfloat)) * coils * (plan.samples() + image().size() + plan.grid_shape().size());
  if (most_bytes == 0) most_bytes = backend_ == Backend::cuda ? kBytesCuda : kBytes;
  return std::clamp<std::int64_t>(most_bytes / std::max<std::int64_t>(1, each), 1, segments());
}

void OffResonance::adjoint(Context& context, const NufftPlan& plan, DeviceView<const cfloat> samples,
                           DeviceView<const float> weights, DeviceView<cfloat> image, std::int64_t most_bytes) const {
  check(context, plan, samples.shape(), image.shape());
  const std::int64_t count = samples.shape()[0], coils = samples.shape()[1];
  if (image.size() == 0) return;
  const std::int64_t chunk = segments_at_a_time(coils, plan, most_bytes);
  const TimeWeights w{.weights = weights_.data(), .times = weights_.shape()[0], .first = 0, .samples = count};
  const FieldPhases p{.field_hz = field_.data(), .at_s = at_s_.data(), .voxels = this->image().size(), .sign = -1};
  for (std::int64_t l = 0; l < segments(); l += chunk) {
    const std::int64_t some = std::min(chunk, segments() - l);
    const SegmentJob job{.coils = coils, .first = l, .count = some, .of = segments()};
    Array<cfloat> parts = context.allocate<cfloat>({count, some * coils});
    Array<cfloat> images = context.allocate<cfloat>(with_items(some * coils, this->image()));
    ECHOTRAIN_DISPATCH(context, split_samples(context, job, w, samples.data(), parts.data()));
    plan.adjoint(context, parts.view(), weights, images.view());
    ECHOTRAIN_DISPATCH(context, gather_segments(context, job, p, images.data(), image.data()));
  }
}

void OffResonance::forward(Context& context, const NufftPlan& plan, DeviceView<const cfloat> image,
                           DeviceView<cfloat> samples, std::int64_t most_bytes) const {
  check(context, plan, samples.shape(), image.shape());
  const std::int64_t count = samples.shape()[0], coils = samples.shape()[1];
  if (samples.size() == 0) return;
  const std::int64_t chunk = segments_at_a_time(coils, plan, most_bytes);
  const TimeWeights w{.weights = weights_.data(), .times = weights_.shape()[0], .first = 0, .samples = count};
  const FieldPhases p{.field_hz = field_.data(), .at_s = at_s_.data(), .voxels = this->image().size(), .sign = 1};
  for (std::int64_t l = 0; l < segments(); l += chunk) {
    const std::int64_t some = std::min(chunk, segments() - l);
    const SegmentJob job{.coils = coils, .first = l, .count = some, .of = segments()};
    Array<cfloat> parts = context.allocate<cfloat>({count, some * coils});
    Array<cfloat> images = context.allocate<cfloat>(with_items(some * coils, this->image()));
    ECHOTRAIN_DISPATCH(context, spread_segments(context, job, p, image.data(), images.data()));
    plan.forward(context, images.view(), parts.view());
    ECHOTRAIN_DISPATCH(context, join_samples(context, job, w, parts.data(), samples.data()));
  }
}

}  // namespace echotrain::numerics
