#include "gadgets/engine/explicit_frames.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "gadgets/engine/dropped_frames.h"
#include "gadgets/engine/readout_batch.h"

namespace echotrain {
namespace {

constexpr std::uint64_t kLastInRepetition = flag_bit(14), kLastInMeasurement = flag_bit(25);

std::uint64_t until_mask(const std::string& name) {
  static const std::map<std::string, int> values = {
      {"last_in_encode_step1", 2}, {"last_in_encode_step2", 4}, {"last_in_average", 6},     {"last_in_slice", 8},
      {"last_in_contrast", 10},    {"last_in_phase", 12},       {"last_in_repetition", 14}, {"last_in_set", 16},
      {"last_in_segment", 18},     {"last_in_measurement", 25}};
  return flag_bit(values.at(name));
}

}  // namespace

FlaggedFrames::FlaggedFrames(OpenFrames& open, const std::string& until) : open_(open), mask_(until_mask(until)) {}

void FlaggedFrames::add(protocol::Acquisition&& acquisition, const OpenFrames::EmitReadouts& emit) {
  const std::uint64_t flags = acquisition.head.flags;
  const FrameKey key = key_of(acquisition.head);
  open_.add(open_.open(key, acquisition.head), std::move(acquisition));
  if ((flags & mask_) == 0) return;
  // Flags above the level of a slice end all frames of their repetition, or of the measurement.
  const std::vector<FrameKey> ended = mask_ == kLastInMeasurement  ? open_.keys()
                                      : mask_ == kLastInRepetition ? open_.keys_of(key.encoding, key.repetition)
                                                                   : std::vector<FrameKey>{key};
  for (const FrameKey& each : ended) open_.close(each, emit);
}

void CountedFrames::start(const protocol::Header& header) {
  for (const protocol::Encoding& encoding : header.encodings) {
    std::int64_t frames = 1;
    for (const auto& limit : {encoding.slice, encoding.contrast, encoding.phase, encoding.set})
      if (limit) frames *= limit->maximum - limit->minimum + 1;
    announced_ = std::max(announced_, std::min<std::int64_t>(frames, OpenFrames::kMost));
  }
}

/// True if a readout belongs to a frame that is left out: nothing of it has been handed on, while the rest of it and
/// all of its next frame have come. Frames that may fill at the same time share the count of waiting readouts.
bool CountedFrames::left_out(const FrameKey& key, std::int64_t behind, Scan& scan) {
  auto it = left_out_.find(key);
  if (it == left_out_.end()) {
    if (behind < 2 * readouts_ - 1 || seen_.size() >= OpenFrames::kMost) return false;
    const auto frames = std::max(announced_, static_cast<std::int64_t>(seen_.size()));
    if (behind < (2 * readouts_ - 1) * frames || open_.find(key) != nullptr) return false;
    ++open_.next_id();  // the other frames keep their numbers
    drop_frame(scan);
    it = left_out_.emplace(key, readouts_).first;
  }
  if (--it->second == 0) left_out_.erase(it);
  return true;
}

void CountedFrames::add(protocol::Acquisition&& acquisition, std::optional<std::int64_t> behind, Scan& scan,
                        const OpenFrames::EmitReadouts& emit) {
  const bool drops = behind.has_value();
  FrameKey key = key_of(acquisition.head);
  const std::uint16_t repetition = std::exchange(key.repetition, 0);  // a frame continues across repetitions
  if (drops && seen_.size() < OpenFrames::kMost) seen_.insert(key);
  if (drops && left_out(key, *behind, scan)) return;
  OpenFrame& open = open_.open(key, acquisition.head);
  Frame& frame = *open.frame;
  frame.key.repetition = repetition;
  if (frame.readouts == 0) {
    frame.expected_readouts = readouts_;
    note_dropped(scan, frame);
  }
  open_.add(open, std::move(acquisition));
  if (frame.readouts == readouts_) open_.close(key, emit);
}

}  // namespace echotrain
