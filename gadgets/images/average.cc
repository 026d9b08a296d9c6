#include "gadgets/images/average.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {
namespace {

/// The counter in a key; nullptr for idx.average, which keys do not hold.
std::uint16_t* counter(FrameKey& key, const std::string& name) {
  if (name == "contrast") return &key.contrast;
  if (name == "phase") return &key.phase;
  if (name == "repetition") return &key.repetition;
  if (name == "set") return &key.set;
  return nullptr;
}

const std::optional<protocol::CounterLimit>& limit(const protocol::Encoding& encoding, const std::string& name) {
  if (name == "contrast") return encoding.contrast;
  if (name == "phase") return encoding.phase;
  if (name == "repetition") return encoding.repetition;
  if (name == "set") return encoding.set;
  return encoding.average;
}

}  // namespace

Parameters<Average::Options> Average::parameters() {
  return Parameters<Options>()
      .choice("over", &Options::over, {"average", "repetition", "contrast", "phase", "set"},
              "the counter whose images are averaged")
      .flag("running", &Options::running, "give the mean so far with every image, not only the last");
}

void Average::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  for (const auto& encoding : header.encodings) {
    const auto& values = limit(encoding, options_.over);
    announced_.push_back(values ? static_cast<std::size_t>(values->maximum - values->minimum) + 1 : 0);
  }
}

void Average::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  if (are_phases(*images.frame, *scan_, kName)) return emit(std::move(images));
  FrameKey key = images.frame->key;
  if (std::uint16_t* value = counter(key, options_.over)) *value = 0;
  Sum& sum = open_[key];
  add(sum, images);
  const bool whole = key.encoding < announced_.size() && sum.images == announced_[key.encoding];
  if (options_.running) {
    sum.frame = images.frame;
    emit(mean(sum));
  } else if (whole) {
    emit(mean(sum));
  }
  if (whole) open_.erase(key);
}

void Average::finish(End how, const Emit<CoilImages>& emit) {
  if (how == End::complete && !options_.running)
    for (const auto& [key, sum] : open_) emit(mean(sum));
  open_.clear();
}

void Average::add(Sum& sum, const CoilImages& images) {
  numerics::Context& compute = scan_->compute;
  if (sum.images == 0) {
    sum.frame = images.frame;
    sum.data = compute.zeros<cfloat>(images.data.shape());
  }
  if (!(sum.data.shape() == images.data.shape()))
    throw ClientError("average cannot join images of " + sum.data.shape().text() + " and " +
                      images.data.shape().text() + " [coil, z, y, x]");
  const std::int64_t readouts = std::max<std::int64_t>(1, images.frame->readouts);
  const std::int64_t size = images.data.size();
  Array<cfloat> weighted = compute.allocate<cfloat>({1, 1, size});
  numerics::scale(compute, images.data.view().reshaped({1, 1, size}), static_cast<float>(readouts), weighted.view());
  // For add_lines the image is a k-space of one line.
  const std::int32_t line = 0;
  numerics::add_lines(compute, weighted.view(), {&line, {1}}, {0, size, 0}, sum.data.view().reshaped({1, 1, size}));
  const double noise = images.noise * static_cast<double>(readouts);
  sum.noise_power += noise * noise;
  sum.noise_known = sum.noise_known && noise > 0;
  sum.weight += static_cast<double>(readouts);
  sum.readouts += images.frame->readouts;
  ++sum.images;
}

CoilImages Average::mean(const Sum& sum) const {
  CoilImages out;
  out.data = scan_->compute.allocate<cfloat>(sum.data.shape());
  numerics::scale(scan_->compute, sum.data.view(), static_cast<float>(1 / sum.weight), out.data.view());
  const auto frame = std::make_shared<Frame>(*sum.frame);
  frame->readouts = sum.readouts;
  frame->notes["averages"] = std::to_string(sum.images);
  out.frame = frame;
  if (sum.noise_known) out.noise = std::sqrt(sum.noise_power) / sum.weight;
  return out;
}

}  // namespace echotrain
