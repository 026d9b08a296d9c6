#include "gadgets/readouts/heartbeats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <pugixml.hpp>
#include <utility>

namespace echotrain {
namespace {

constexpr std::uint16_t kEcg = 0;  // waveform_id
constexpr double kWindowMs = 2000, kRenewMs = 250;
constexpr float kShare = 0.6f;
constexpr double kLargestWindow = 200'000;  // samples: 2 s at 100 kHz
constexpr double kLongestSampleMs = 1000;

}  // namespace

int Heartbeats::trigger_channel(const std::string& header_xml) {
  pugi::xml_document document;
  if (!document.load_buffer(header_xml.data(), header_xml.size())) return -1;
  for (const pugi::xml_node information : document.document_element().children("waveformInformation"))
    if (information.child("waveformId").text().as_int(-1) == kEcg)
      return std::clamp(information.child("waveformTriggerChannel").text().as_int(-1), -1, 65535);
  return -1;
}

bool Heartbeats::add(const protocol::Waveform& waveform, double stamped_ms) {
  const protocol::WaveformHeader& head = waveform.head;
  const std::size_t count = head.number_of_samples, channels = head.channels;
  const int channel = options_.trigger_channel >= 0 ? options_.trigger_channel : options_.lead;
  const double sample_ms = head.sample_time_us / 1000.0;
  if (head.waveform_id != kEcg || count == 0 || static_cast<std::size_t>(channel) >= channels ||
      !(sample_ms > 0 && sample_ms <= kLongestSampleMs) ||
      waveform.data.bytes.size() < count * channels * sizeof(std::uint32_t))
    return false;

  if (sample_ms != sample_ms_) {
    window_.clear();
    oldest_ = 0;
    sample_ms_ = sample_ms;
  }
  if (samples_ == 0 || std::abs(stamped_ms - next_time_ms_) > 1.5 * options_.tick_ms) next_time_ms_ = stamped_ms;

  std::vector<std::uint32_t> values(count);
  const auto of_channel =
      waveform.data.bytes.subspan(static_cast<std::size_t>(channel) * count * sizeof(std::uint32_t));
  std::memcpy(values.data(), of_channel.data(), count * sizeof(std::uint32_t));
  const std::size_t before = triggers_.size();
  for (std::size_t i = 0; i < count; ++i)
    next({next_time_ms_ + static_cast<double>(i) * sample_ms, static_cast<float>(values[i])});
  next_time_ms_ += static_cast<double>(count) * sample_ms;
  samples_ += count;
  return triggers_.size() > before;
}

bool Heartbeats::add_stamp(double time_ms, double since_ms) {
  const double last = std::exchange(last_since_ms_, since_ms);
  if (since_ms == 0 && last == 0) return false;
  const std::size_t before = triggers_.size();
  trigger(time_ms - since_ms);
  return triggers_.size() > before;
}

std::size_t Heartbeats::window_size() const {
  return static_cast<std::size_t>(std::clamp(kWindowMs / sample_ms_, 1.0, kLargestWindow));
}

void Heartbeats::next(const Sample& sample) {
  if (options_.trigger_channel >= 0) {
    if (sample.value != 0 && last_value_ == 0) trigger(sample.time_ms);
    last_value_ = sample.value;
    return;
  }
  const std::size_t size = window_size();
  if (window_.size() < size) {
    window_.push_back(sample);
    if (window_.size() < size) return;
    threshold();
    for (const Sample& each : window_) look(each);
    return;
  }
  window_[oldest_] = sample;
  oldest_ = (oldest_ + 1) % size;
  if (static_cast<double>(++since_threshold_) * sample_ms_ >= kRenewMs) threshold();
  look(sample);
}

bool Heartbeats::finish() {
  const std::size_t before = triggers_.size();
  if (options_.trigger_channel < 0 && sample_ms_ > 0) {
    if (!window_.empty() && window_.size() < window_size()) {
      threshold();
      for (const Sample& each : window_) look(each);
    }
    if (peak_.value > 0) trigger(peak_.time_ms);
  }
  window_.clear();
  peak_ = {0, 0};
  return triggers_.size() > before;
}

void Heartbeats::threshold() {
  since_threshold_ = 0;
  std::vector<float> values;
  values.reserve(window_.size());
  for (const Sample& sample : window_) values.push_back(sample.value);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  baseline_ = *middle;
  float farthest = 0;
  for (const float value : values) farthest = std::max(farthest, std::abs(value - baseline_));
  least_ = kShare * farthest;
}

void Heartbeats::look(const Sample& sample) {
  const float distance = std::abs(sample.value - baseline_);
  if (distance > least_) {
    if (distance > peak_.value) peak_ = {sample.time_ms, distance};
  } else if (peak_.value > 0) {
    trigger(peak_.time_ms);
    peak_ = {0, 0};
  }
}

void Heartbeats::trigger(double time_ms) {
  if (triggers_.empty() || time_ms >= triggers_.back() + options_.min_interval_ms) triggers_.push_back(time_ms);
}

}  // namespace echotrain
