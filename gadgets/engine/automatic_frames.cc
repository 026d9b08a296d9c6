#include "gadgets/engine/automatic_frames.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "gadgets/engine/readout_batch.h"

namespace echotrain {
namespace {

constexpr std::uint64_t kMayEndFrame =
    flag_bit(8) | flag_bit(14) | flag_bit(25);                       // last in slice, repetition, measurement
constexpr std::uint64_t kCalibration = flag_bit(20) | flag_bit(21);  // alone, or for images, too
constexpr std::size_t kClosedFramesKept = 1024;                      // frames remembered, to recognise late readouts

std::size_t extent(const std::optional<protocol::CounterLimit>& limit, std::size_t otherwise) {
  return limit ? static_cast<std::size_t>(limit->maximum - limit->minimum) + 1 : otherwise;
}

/// The counter may wrap, so "later" is a signed distance.
bool later_repetition(std::uint16_t a, std::uint16_t b) { return static_cast<std::int16_t>(a - b) > 0; }

}  // namespace

AutomaticFrames::Expected AutomaticFrames::expected_of(const protocol::Encoding& encoding) {
  const auto& limit1 = encoding.kspace_encoding_step_1;
  const auto& limit2 = encoding.kspace_encoding_step_2;
  const bool cartesian =
      encoding.trajectory == protocol::Trajectory::cartesian || encoding.trajectory == protocol::Trajectory::epi;
  const std::size_t step1 = extent(limit1, cartesian ? encoding.encoded.matrix[1] : 0);
  const std::size_t step2 = extent(limit2, cartesian ? encoding.encoded.matrix[2] : 1);
  const std::size_t averages = extent(encoding.average, 1);
  Expected out;
  out.lines = step1 * step2 * averages;
  out.averages = encoding.average.has_value();
  LineLattice lattice;
  lattice.first = {limit1 ? limit1->minimum : 0, limit2 ? limit2->minimum : 0};
  lattice.extent = {static_cast<std::int64_t>(step1), static_cast<std::int64_t>(step2)};
  lattice.step = {encoding.acceleration[0], step2 > 1 ? encoding.acceleration[1] : 1};
  lattice.times = static_cast<std::int64_t>(averages);
  if (cartesian && lattice.undersampled()) out.lattice = lattice;
  const std::string& mode = encoding.calibration_mode;
  out.references_apart = mode == "separate" || mode == "external" || mode == "interleaved";
  return out;
}

void AutomaticFrames::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  for (const auto& encoding : header.encodings) expected_.push_back(expected_of(encoding));
}

AutomaticFrames::Line AutomaticFrames::line_of(const protocol::AcquisitionHeader& head) {
  const ISMRMRD::ISMRMRD_EncodingCounters idx = head.idx;
  return {idx.kspace_encode_step_1, idx.kspace_encode_step_2, idx.average};
}

/// The line's number in a LineSet: with_average() tells the averages of a line apart, the other function does not.
std::uint64_t AutomaticFrames::with_average(const Line& line) {
  const auto [step_1, step_2, average] = line;
  return 1ull << 48 | static_cast<std::uint64_t>(average) << 32 | static_cast<std::uint64_t>(step_2) << 16 | step_1;
}
std::uint64_t AutomaticFrames::of_any_average(const Line& line) {
  return 1ull << 49 | static_cast<std::uint64_t>(std::get<1>(line)) << 16 | std::get<0>(line);
}

bool AutomaticFrames::complete(const OpenFrame& frame) const {
  return frame.announced >= expected(frame.frame->key).lines;
}

bool AutomaticFrames::lattice_complete(const OpenFrame& frame) const {
  if (!frame.lattice || !frame.lattice->complete()) return false;
  const FrameKey& key = frame.frame->key;
  const auto references = references_.find(key.encoding);
  if (references == references_.end()) return expected(key).references_apart;
  return !references->second.follow && (expected(key).references_apart || references->second.seen);
}

/// True if a readout belongs to a frame that was closed before it was whole. When a sender does not count repetitions,
/// a readout that repeats the closed frame's first line begins the next frame instead, and so does any imaging line
/// after a frame whose lattice was whole.
bool AutomaticFrames::is_late(const FrameKey& key, const protocol::AcquisitionHeader& head) const {
  if (open_.find(key) != nullptr) return false;
  const auto closed = std::find_if(closed_incomplete_.rbegin(), closed_incomplete_.rend(),
                                   [&](const Closed& frame) { return frame.key == key; });
  if (closed == closed_incomplete_.rend()) return false;
  if (later_repetition(newest_.at(key.encoding), key.repetition)) return true;
  const Line line = line_of(head);
  if (!closed->by_lattice) return line != closed->first;
  return (head.flags & kCalibration) != 0 && of_any_average(line) != of_any_average(closed->first);
}

/// Closes frames of earlier repetitions, and others that are whole or have seen a last-in flag. Only the frame of the
/// previous readout can have become so since the last call.
void AutomaticFrames::close_finished(const FrameKey& next, const OpenFrames::EmitReadouts& emit) {
  std::vector<OpenFrames::Numbered> finished = open_.before(next.encoding, next.repetition);
  const OpenFrame* last = last_ == next ? nullptr : open_.find(last_);
  if (last != nullptr && (last->last_seen || (expected(last_).lines > 0 && complete(*last))))
    finished.emplace_back(last->frame->id, last_);
  if (finished.empty()) return;  // as for nearly every readout
  std::sort(finished.begin(), finished.end());
  finished.erase(std::unique(finished.begin(), finished.end()), finished.end());
  for (const auto& [id, key] : finished) close(key, emit);
}

void AutomaticFrames::add(protocol::Acquisition&& acquisition, const OpenFrames::EmitReadouts& emit) {
  const protocol::AcquisitionHeader& head = acquisition.head;
  const FrameKey key = key_of(head);
  const Line line = line_of(head);
  const bool reference = (head.flags & kCalibration) != 0;
  // If the frame is that of the previous readout, that readout has closed all that this one could.
  const bool goes_on = key == last_ && open_.find(key) != nullptr;
  if (!goes_on) {
    if (is_late(key, head)) {
      if (reference) references_[key.encoding].follow = true;
      ++late_;
      scan_->warn("readouts arrived after their frame was closed; they are left out and counted");
      return;
    }
    const auto newest = newest_.try_emplace(key.encoding, key.repetition).first;
    if (later_repetition(key.repetition, newest->second)) newest->second = key.repetition;
    close_finished(key, emit);
  }
  // A whole frame that begins again is the next one, though its counters are the same. (A header that announces one
  // line tells nothing: the readouts of such scans are often not numbered.)
  if (const OpenFrame* same = open_.find(key);
      same != nullptr && expected(key).lines > 1 && complete(*same) && same->lines.contains(with_average(line)))
    close(key, emit);

  if (reference) calibration_came(head);
  OpenFrame& frame = open_.open(key, head);
  const bool fresh =
      frame.lines.insert(with_average(line)) && (expected(key).averages || frame.lines.insert(of_any_average(line)));
  if (fresh) ++frame.announced;
  if (expected(key).lattice && !frame.lattice) frame.lattice.emplace(scan_->compute, *expected(key).lattice);
  if (fresh && frame.lattice) frame.lattice->add(head.idx.kspace_encode_step_1, head.idx.kspace_encode_step_2);
  const bool may_end = (head.flags & kMayEndFrame) != 0;
  open_.add(frame, std::move(acquisition));
  last_ = key;
  frame.last_seen |= may_end;
  if (frame.last_seen && complete(frame))
    close(key, emit);
  else if (may_end && lattice_complete(frame))
    close_lattices(key, emit);
}

/// Ends a frame whose lattice is whole, and with it those of its slice and repetition that are as whole and have as
/// many lines: where contrasts take turns, perhaps only the last one has a flag.
void AutomaticFrames::close_lattices(const FrameKey& key, const OpenFrames::EmitReadouts& emit) {
  const std::size_t lines = open_.find(key)->announced;
  for (const FrameKey& other : open_.keys_of(key.encoding, key.repetition)) {
    const OpenFrame& frame = *open_.find(other);
    if (other == key || (other.slice == key.slice && frame.announced >= lines && lattice_complete(frame)))
      close(other, emit, true);
  }
}

void AutomaticFrames::calibration_came(const protocol::AcquisitionHeader& head) {
  const FrameKey key = key_of(head);
  References& references = references_[key.encoding];
  references.seen = true;
  if (const OpenFrame* frame = open_.find(key); frame != nullptr && frame->last_seen) references.follow = true;
}

/// The same counters again mean a repeated frame if this one is whole, and late readouts if it is not.
void AutomaticFrames::close(const FrameKey& key, const OpenFrames::EmitReadouts& emit, bool by_lattice) {
  if (const OpenFrame& frame = *open_.find(key); !complete(frame)) {
    closed_incomplete_.push_back({key, line_of(frame.frame->reference), by_lattice});
    if (closed_incomplete_.size() > kClosedFramesKept) closed_incomplete_.pop_front();
  }
  open_.close(key, emit);
}

}  // namespace echotrain
