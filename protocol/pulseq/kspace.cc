#include "protocol/pulseq/kspace.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "protocol/files/scan_reader.h"

namespace echotrain::protocol::pulseq {
namespace {

constexpr std::int32_t kMostCount = 0xFFFF;
constexpr std::int64_t kMostSum = std::int64_t{1} << 30;
constexpr std::size_t kMostLabels = 256;  // of a block
constexpr double kShortest = 1e-9;        // times that differ less are one

/// The place of a label in its list; its length where it is not there.
template <std::size_t N>
std::size_t place_in(const std::array<const char*, N>& names, const std::string& name) {
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

}  // namespace

void KSpace::refuse(const Block& block, const std::string& why) const {
  throw DatasetError(fmt::format("{}: block {}: {}", sequence_->name, &block - sequence_->blocks.data() + 1, why));
}

KSpace::KSpace(Sequence sequence) : sequence_(std::make_unique<const Sequence>(std::move(sequence))) {
  WaveformMaker maker(*sequence_);
  Labels labels;
  Place k{};
  std::array<double, 3> before{};  // strength at the block's begin
  std::uint32_t excitations = 0;
  std::uint64_t samples = 0;
  for (const Block& block : sequence_->blocks) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::uint32_t id = block.gradients[axis];
      if (id == 0) {
        before[axis] = 0;
        continue;
      }
      const auto event = sequence_->gradients.find(id);
      if (event == sequence_->gradients.end()) refuse(block, fmt::format("there is no gradient {}", id));
      if (!waveforms_.contains(id)) waveforms_[id] = maker.waveform(event->second, before[axis]);
      const GradientWave& made = waveforms_[id];
      before[axis] = made.end_s() + kShortest < block.seconds ? 0 : made.last;
    }
    if (block.rf != 0 && !actions_.contains(block.rf)) {
      const auto event = sequence_->rf.find(block.rf);
      if (event == sequence_->rf.end()) refuse(block, fmt::format("there is no RF pulse {}", block.rf));
      actions_[block.rf] = maker.action(event->second);
    }
    if (block.rf != 0 && actions_[block.rf] && !actions_[block.rf]->refocuses) ++excitations;
    const Matrix3* rotation = apply_extensions(block, labels);
    if (block.adc != 0) {
      const auto event = sequence_->adcs.find(block.adc);
      if (event == sequence_->adcs.end()) refuse(block, fmt::format("there is no ADC event {}", block.adc));
      samples += event->second.samples;
      if (samples > kMostSamples) refuse(block, fmt::format("more than {} samples up to here", kMostSamples));
      for (std::size_t i = 0; i < kCounterLabels.size(); ++i)
        if (labels.counters[i] < 0 || labels.counters[i] > kMostCount)
          refuse(block, fmt::format("the label {} is {}; counters are 0 to {}", kCounterLabels[i], labels.counters[i],
                                    kMostCount));
      const auto number = static_cast<std::uint32_t>(&block - sequence_->blocks.data());
      readouts_.push_back({number, excitations, k, rotation, labels});
    }
    k = path(block, k, rotation).at(block.seconds);
  }
  if (readouts_.empty()) throw DatasetError(fmt::format("{}: no block has an ADC event", sequence_->name));
}

/// A block's labels stand in its list in reverse order: the last one comes first (as pypulseq and Pulseq write them).
/// All that set come before all that add.
const Matrix3* KSpace::apply_extensions(const Block& block, Labels& labels) {
  std::vector<std::pair<const LabelEvent*, bool>> events;
  const Matrix3* rotation = nullptr;
  std::size_t steps = 0;
  for (std::uint32_t id = block.extension; id != 0;) {
    const auto found = sequence_->extensions.find(id);
    if (found == sequence_->extensions.end()) refuse(block, fmt::format("there is no extension {}", id));
    if (++steps > kMostLabels) refuse(block, fmt::format("more than {} extensions", kMostLabels));
    const Extension& extension = found->second;
    id = extension.next;
    if (extension.kind == ExtensionKind::other) continue;
    if (extension.kind == ExtensionKind::rotation) {
      const auto turn = sequence_->rotations.find(extension.event);
      if (turn == sequence_->rotations.end()) refuse(block, fmt::format("there is no rotation {}", extension.event));
      if (rotation != nullptr) refuse(block, "two rotations; a block has one at most");
      rotation = &turn->second;
      continue;
    }
    const bool sets = extension.kind == ExtensionKind::set_label;
    const auto& library = sets ? sequence_->sets : sequence_->additions;
    const auto event = library.find(extension.event);
    if (event == library.end()) refuse(block, fmt::format("there is no label event {}", extension.event));
    events.emplace_back(&event->second, sets);
  }
  std::stable_partition(events.rbegin(), events.rend(), [](const auto& each) { return each.second; });
  for (auto each = events.rbegin(); each != events.rend(); ++each) {
    const auto& [event, sets] = *each;
    std::int32_t* value = nullptr;
    if (const std::size_t i = place_in(kCounterLabels, event->name); i < kCounterLabels.size()) {
      used_counters_[i] = true;
      value = &labels.counters[i];
    } else if (const std::size_t j = place_in(kFlagLabels, event->name); j < kFlagLabels.size()) {
      used_flags_[j] = true;
      value = &labels.flags[j];
    } else if (event->name == "ONCE") {
      value = &labels.once;
    } else {
      continue;
    }
    *value =
        static_cast<std::int32_t>(std::clamp(event->value + (sets ? 0 : std::int64_t{*value}), -kMostSum, kMostSum));
  }
  return rotation;
}

Path KSpace::path(const Block& block, const Place& begin, const Matrix3* rotation) const {
  Path out;
  out.begin_ = begin;
  out.rotation_ = rotation;
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (const auto found = waveforms_.find(block.gradients[axis]); found != waveforms_.end())
      out.waves_[axis] = &found->second;
  const auto found = block.rf == 0 ? actions_.end() : actions_.find(block.rf);
  if (found != actions_.end() && found->second) out.action_ = &*found->second;
  return out;
}

Place Path::moved(double until_s) const {
  Place out{};
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (waves_[axis] != nullptr) out[axis] = waves_[axis]->integral(until_s);
  if (rotation_ == nullptr) return out;
  Place turned{};
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t axis = 0; axis < 3; ++axis) turned[row] += (*rotation_)[row][axis] * out[axis];
  return turned;
}

Place Path::at(double seconds) const {
  Place out = moved(seconds);
  if (action_ == nullptr || seconds < action_->seconds) {
    for (std::size_t axis = 0; axis < 3; ++axis) out[axis] += begin_[axis];
    return out;
  }
  const Place until = moved(action_->seconds);
  for (std::size_t axis = 0; axis < 3; ++axis)
    out[axis] -= action_->refocuses ? begin_[axis] + 2 * until[axis] : until[axis];
  return out;
}

const Adc& KSpace::adc(std::size_t readout) const {
  return sequence_->adcs.at(sequence_->blocks[readouts_[readout].block].adc);
}

KSpace::PathKey KSpace::path_key(std::size_t readout) const {
  const Readout& r = readouts_[readout];
  const Block& block = sequence_->blocks[r.block];
  return {block.adc, block.rf, block.gradients, r.rotation, r.begin};
}

Place KSpace::place(std::size_t readout, std::size_t sample) const { return places(readout, sample, 1).front(); }

std::vector<Place> KSpace::places(std::size_t readout, std::size_t first, std::size_t count, std::size_t stride) const {
  const Readout& r = readouts_[readout];
  const Adc& event = adc(readout);
  const Path way = path(sequence_->blocks[r.block], r.begin, r.rotation);
  std::vector<Place> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = way.at(event.delay_s + (static_cast<double>(first + i * stride) + 0.5) * event.dwell_s);
  return out;
}

}  // namespace echotrain::protocol::pulseq
