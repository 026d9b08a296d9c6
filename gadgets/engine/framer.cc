#include "gadgets/engine/framer.h"

#include <algorithm>
#include <utility>

#include "gadgets/engine/readout_batch.h"

namespace echotrain {
namespace {

using protocol::Acquisition;
using protocol::AcquisitionHeader;
using protocol::ReadoutKind;

constexpr std::uint64_t flag(int value) { return 1ull << (value - 1); }  // ISMRMRD: value v means bit v-1

constexpr std::uint64_t kLastInSlice = flag(8), kLastInRepetition = flag(14), kLastInMeasurement = flag(25);
constexpr std::size_t kClosedFramesKept = 1024;  // frames remembered, to recognise late readouts

std::uint64_t until_mask(const std::string& name) {
  static const std::map<std::string, int> values = {
      {"last_in_encode_step1", 2}, {"last_in_encode_step2", 4}, {"last_in_average", 6},     {"last_in_slice", 8},
      {"last_in_contrast", 10},    {"last_in_phase", 12},       {"last_in_repetition", 14}, {"last_in_set", 16},
      {"last_in_segment", 18},     {"last_in_measurement", 25}};
  return flag(values.at(name));
}

auto line_of(const AcquisitionHeader& head) {
  const ISMRMRD::ISMRMRD_EncodingCounters idx = head.idx;
  return std::tuple<std::uint16_t, std::uint16_t, std::uint16_t>{idx.kspace_encode_step_1, idx.kspace_encode_step_2,
                                                                 idx.average};
}

/// Line numbers for a LineSet: with_average() tells the averages of a line apart, the other one does not.
std::uint64_t with_average(const std::tuple<std::uint16_t, std::uint16_t, std::uint16_t>& line) {
  const auto [step_1, step_2, average] = line;
  return 1ull << 48 | static_cast<std::uint64_t>(average) << 32 | static_cast<std::uint64_t>(step_2) << 16 | step_1;
}
std::uint64_t of_any_average(const std::tuple<std::uint16_t, std::uint16_t, std::uint16_t>& line) {
  return 1ull << 49 | static_cast<std::uint64_t>(std::get<1>(line)) << 16 | std::get<0>(line);
}

std::size_t extent(const std::optional<protocol::CounterLimit>& limit, std::size_t otherwise) {
  return limit ? static_cast<std::size_t>(limit->maximum - limit->minimum) + 1 : otherwise;
}

/// The counter may wrap, so "later" is a signed distance.
bool later_repetition(std::uint16_t a, std::uint16_t b) { return static_cast<std::int16_t>(a - b) > 0; }

const char* kind_name(ReadoutKind kind) {
  switch (kind) {
    case ReadoutKind::calibration:
      return "calibration";
    case ReadoutKind::navigator:
      return "navigator";
    case ReadoutKind::phase_correction:
      return "phase correction";
    default:
      return "special";
  }
}

}  // namespace

void Framer::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  if (rule_.kind == config::FrameRule::Kind::until) until_mask_ = until_mask(rule_.until);
  for (const auto& encoding : header.encodings) {
    const bool cartesian = encoding.trajectory == protocol::Trajectory::cartesian;
    const std::size_t step1 = extent(encoding.kspace_encoding_step_1, cartesian ? encoding.encoded.matrix[1] : 0);
    const std::size_t step2 = extent(encoding.kspace_encoding_step_2, cartesian ? encoding.encoded.matrix[2] : 1);
    expected_.push_back({step1 * step2 * extent(encoding.average, 1), encoding.average.has_value()});
  }
}

void Framer::push(std::vector<Acquisition>&& acquisitions, const EmitReadouts& emit) {
  taken_ = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < acquisitions.size();) {
    const ReadoutKind kind = protocol::readout_kind(acquisitions[i].head);
    if (kind != ReadoutKind::imaging) {
      std::vector<Acquisition> run;
      const auto same = [&](const Acquisition& a) {
        const AcquisitionHeader& first = run.front().head;
        return protocol::readout_kind(a.head) == kind && a.head.number_of_samples == first.number_of_samples &&
               a.head.active_channels == first.active_channels &&
               a.head.trajectory_dimensions == first.trajectory_dimensions &&
               a.head.encoding_space_ref == first.encoding_space_ref;
      };
      do run.push_back(std::move(acquisitions[i++]));
      while (i < acquisitions.size() && same(acquisitions[i]));
      flush_all(emit);  // readouts before a noise scan are not whitened by it
      other_kind(kind, std::move(run), emit);
    } else if (rule_.kind == config::FrameRule::Kind::readouts) {
      if (rule_.stride < rule_.readouts)
        windows_.push(*scan_, acquisitions[i++], taken_, next_id_, emit);
      else
        add_counted(std::move(acquisitions[i++]), emit);
    } else {
      add_imaging(std::move(acquisitions[i++]), emit);
    }
  }
  flush_all(emit);
}

void Framer::other_kind(ReadoutKind kind, std::vector<Acquisition>&& run, const EmitReadouts& emit) {
  if (kind != ReadoutKind::noise)
    scan_->info(std::string("the scan holds ") + kind_name(kind) + " readouts; they are not used for images");
  // This batch stays on the host, where noise statistics are summed in float64.
  Readouts readouts = make_batch(scan_->compute, run, false);
  readouts.kind = kind;
  emit(std::move(readouts));
}

Framer::Open& Framer::open(const FrameKey& key, const AcquisitionHeader& head) {
  auto [it, fresh] = open_.try_emplace(key, scan_->compute);
  if (fresh) {
    it->second.frame = std::make_shared<Frame>();
    it->second.frame->id = next_id_++;
    it->second.frame->key = key;
    it->second.frame->reference = head;
  }
  return it->second;
}

bool Framer::complete(const Open& frame) const { return frame.announced >= expected(frame.frame->key).lines; }

bool Framer::looks_finished(const Open& frame, const FrameKey& next) const {
  const FrameKey& key = frame.frame->key;
  if (key == next) return false;
  const bool earlier = key.encoding == next.encoding && later_repetition(next.repetition, key.repetition);
  return earlier || frame.last_seen || (expected(key).lines > 0 && complete(frame));
}

/// Whether a readout belongs to a frame that was closed before it was whole. When a sender does not count repetitions,
/// a readout that repeats the closed frame's first line begins the next frame instead.
bool Framer::is_late(const FrameKey& key, const Line& line) const {
  if (open_.contains(key)) return false;
  const auto closed = std::find_if(closed_incomplete_.rbegin(), closed_incomplete_.rend(),
                                   [&](const Closed& frame) { return frame.key == key; });
  if (closed == closed_incomplete_.rend()) return false;
  return line != closed->first || later_repetition(newest_.at(key.encoding), key.repetition);
}

void Framer::close_finished(const FrameKey& next, const EmitReadouts& emit) {
  const auto finished = [&](const auto& entry) { return looks_finished(entry.second, next); };
  if (std::none_of(open_.begin(), open_.end(), finished)) return;  // so it is for nearly every readout
  for (const FrameKey& key : open_keys())
    if (looks_finished(open_.at(key), next)) close(key, emit);
}

/// Flags above the level of a slice end all frames of their repetition, or of the measurement.
void Framer::close_until(const FrameKey& key, std::uint64_t flags, const EmitReadouts& emit) {
  if ((flags & until_mask_) == 0) return;
  for (const FrameKey& other : open_keys()) {
    const bool same_repetition = other.encoding == key.encoding && other.repetition == key.repetition;
    if (other == key || until_mask_ == kLastInMeasurement || (until_mask_ == kLastInRepetition && same_repetition))
      close(other, emit);
  }
}

void Framer::add_imaging(Acquisition&& acquisition, const EmitReadouts& emit) {
  const AcquisitionHeader head = acquisition.head;
  const FrameKey key = key_of(head);
  const Line line = line_of(head);
  const bool automatic = rule_.kind == config::FrameRule::Kind::automatic;

  if (automatic) {
    if (is_late(key, line)) {
      ++late_;
      scan_->warn("readouts arrived after their frame was closed; they are left out and counted");
      return;
    }
    const auto newest = newest_.try_emplace(key.encoding, key.repetition).first;
    if (later_repetition(key.repetition, newest->second)) newest->second = key.repetition;
    close_finished(key, emit);
    // A whole frame that begins again is the next one, though its counters are the same. (A header that announces one
    // line says nothing: the readouts of such scans are often not numbered.)
    if (const auto it = open_.find(key); it != open_.end() && expected(key).lines > 1 && complete(it->second) &&
                                         it->second.lines.contains(with_average(line)))
      close(key, emit);
  }

  Open& frame = open(key, head);
  if (frame.lines.insert(with_average(line)) && (expected(key).averages || frame.lines.insert(of_any_average(line))))
    ++frame.announced;
  ++frame.frame->readouts;
  note_arrival(*frame.frame, acquisition);
  frame.waiting.push_back(std::move(acquisition));

  if (automatic) {
    frame.last_seen |= (head.flags & (kLastInSlice | kLastInRepetition | kLastInMeasurement)) != 0;
    if (frame.last_seen && complete(frame)) close(key, emit);
  } else {
    close_until(key, head.flags, emit);
  }
}

void Framer::add_counted(Acquisition&& acquisition, const EmitReadouts& emit) {
  FrameKey key = key_of(acquisition.head);
  const std::uint16_t repetition = std::exchange(key.repetition, 0);  // a frame continues across repetitions
  Open& frame = open(key, acquisition.head);
  frame.frame->key.repetition = repetition;
  if (frame.frame->readouts == 0) frame.frame->expected_readouts = rule_.readouts;
  note_arrival(*frame.frame, acquisition);
  frame.waiting.push_back(std::move(acquisition));
  if (++frame.frame->readouts == rule_.readouts) close(key, emit);
}

void Framer::flush(Open& frame, bool last, const EmitReadouts& emit) {
  if (frame.waiting.empty() && !last) return;
  Readouts readouts = make_batch(scan_->compute, frame.waiting, true);
  readouts.frame = frame.frame;
  readouts.first = !std::exchange(frame.started, true);
  readouts.last = last;
  frame.waiting.clear();
  emit(std::move(readouts));
}

void Framer::flush_all(const EmitReadouts& emit) {
  for (auto& [key, frame] : open_) flush(frame, false, emit);
}

std::vector<FrameKey> Framer::open_keys() const {
  std::vector<const Frame*> frames;
  for (const auto& [key, open] : open_) frames.push_back(open.frame.get());
  std::sort(frames.begin(), frames.end(), [](const Frame* a, const Frame* b) { return a->id < b->id; });
  std::vector<FrameKey> keys;
  for (const Frame* frame : frames) keys.push_back(frame->key);
  return keys;
}

void Framer::close(const FrameKey& key, const EmitReadouts& emit) {
  const auto it = open_.find(key);
  Open frame = std::move(it->second);
  open_.erase(it);
  frame.frame->arrival.taken = taken_;
  // The same counters again mean a repeated frame if this one was whole, and late readouts if it was not.
  if (rule_.kind == config::FrameRule::Kind::automatic && !complete(frame)) {
    closed_incomplete_.push_back({key, line_of(frame.frame->reference)});
    if (closed_incomplete_.size() > kClosedFramesKept) closed_incomplete_.pop_front();
  }
  flush(frame, true, emit);
}

void Framer::finish(End how, const EmitReadouts& emit) {
  taken_ = std::chrono::steady_clock::now();
  auto [partial_windows, left_over] = windows_.finish();
  if (rule_.kind == config::FrameRule::Kind::readouts && how == End::complete) {
    for (const auto& [key, frame] : open_) left_over += frame.frame->readouts;
    open_.clear();
  }
  if (how == End::truncated) {
    if (const std::size_t partial = open_.size() + partial_windows; partial > 0)
      scan_->warn(std::to_string(partial) + " unfinished frame(s) dropped: the scan ended before they were whole");
    open_.clear();
    return;
  }
  if (left_over > 0)
    scan_->warn("the last " + std::to_string(left_over) + " readouts do not make a whole frame and are left out");
  for (const FrameKey& key : open_keys()) close(key, emit);
}

}  // namespace echotrain
