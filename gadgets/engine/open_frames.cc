#include "gadgets/engine/open_frames.h"

#include <fmt/format.h>

#include <limits>

#include "gadgets/api/errors.h"
#include "gadgets/engine/readout_batch.h"

namespace echotrain {

void refuse_more_frames(std::size_t open) {
  if (open >= OpenFrames::kMost)
    throw ClientError(
        fmt::format("{} frames are open, and a readout opens one more: readouts that differ in slice, contrast, phase, "
                    "repetition, set or encoding space belong to different frames. Check these counters and the flags "
                    "that end a frame, or let the pipeline's key 'frame' say how many readouts a frame has",
                    open));
}

namespace {
constexpr std::size_t kMostSpareBytes = 1 << 20;  // largest table of a frame's lines that is kept
}  // namespace

void OpenFrames::start(Scan& scan) { scan_ = &scan; }

OpenFrames::Order OpenFrames::order_of(const OpenFrame& frame) {
  return {frame.key.encoding, frame.key.repetition, frame.frame->id};
}

OpenFrame& OpenFrames::open(const FrameKey& key, const protocol::AcquisitionHeader& head) {
  if (OpenFrame* const known = look_up(key)) return *known;
  refuse_more_frames(open_.size());
  auto frame = std::make_shared<Frame>();
  frame->id = next_id_++;
  frame->key = key;
  frame->reference = head;
  OpenFrame& fresh = open_.try_emplace(key, no_lines(), key).first->second;
  fresh.frame = std::move(frame);
  ordered_.emplace(order_of(fresh), key);
  return fresh;
}

// Most readouts belong to the frame of the previous readout.
OpenFrame* OpenFrames::look_up(const FrameKey& key) {
  if (found_ != nullptr && found_->key == key) return found_;
  const auto it = open_.find(key);
  if (it == open_.end()) return nullptr;
  return found_ = &it->second;
}

void OpenFrames::add(OpenFrame& frame, protocol::Acquisition&& acquisition) {
  ++frame.frame->readouts;
  note_arrival(*frame.frame, acquisition);
  if (frame.waiting.empty()) waiting_.insert(frame.key);
  if (frame.waiting.capacity() == 0) frame.waiting.swap(spare_);
  waiting_bytes_ += acquisition.data.bytes.size();
  frame.waiting.push_back(std::move(acquisition));
}

void OpenFrames::close(const FrameKey& key, const EmitReadouts& emit) {
  const auto it = open_.find(key);
  OpenFrame frame = std::move(it->second);
  open_.erase(it);
  found_ = nullptr;
  ordered_.erase(order_of(frame));
  waiting_.erase(frame.key);
  if (frame.lines.bytes() <= kMostSpareBytes) {
    frame.lines.clear();
    spare_lines_.emplace(std::move(frame.lines));
  }
  frame.frame->arrival.taken = taken_;
  flush(frame, true, emit);
}

// On a GPU a table is pinned memory, which costs calls of the driver, so frames reuse one.
LineSet OpenFrames::no_lines() {
  if (!spare_lines_) return LineSet(scan_->compute);
  LineSet lines = std::move(*spare_lines_);
  spare_lines_.reset();
  return lines;
}

void OpenFrames::flush(OpenFrame& frame, bool last, const EmitReadouts& emit) {
  if (frame.waiting.empty() && !last) return;
  scan_->compute.check_stop();  // thousands may be handed on at once
  for (const protocol::Acquisition& each : frame.waiting) waiting_bytes_ -= each.data.bytes.size();
  Readouts readouts = make_batch(scan_->compute, frame.waiting, true);
  readouts.frame = frame.frame;
  readouts.first = !std::exchange(frame.started, true);
  readouts.last = last;
  frame.waiting.clear();
  if (frame.waiting.capacity() > spare_.capacity()) spare_.swap(frame.waiting);
  frame.waiting = {};  // an open frame keeps no memory of readouts that have gone on
  emit(std::move(readouts));
}

void OpenFrames::flush_all(const EmitReadouts& emit) {
  for (const FrameKey& key : std::exchange(waiting_, {})) flush(open_.find(key)->second, false, emit);
}

void OpenFrames::clear() {
  open_.clear();
  found_ = nullptr;
  ordered_.clear();
  waiting_.clear();
  waiting_bytes_ = 0;
}

std::vector<FrameKey> OpenFrames::keys() const {
  std::map<std::uint64_t, FrameKey> by_id;
  for (const auto& [order, key] : ordered_) by_id.emplace(std::get<std::uint64_t>(order), key);
  std::vector<FrameKey> keys;
  for (const auto& [id, key] : by_id) keys.push_back(key);
  return keys;
}

std::vector<FrameKey> OpenFrames::keys_of(std::uint16_t encoding, std::uint16_t repetition) const {
  std::vector<FrameKey> keys;
  for (auto it = ordered_.lower_bound({encoding, repetition, 0});
       it != ordered_.end() && it->second.encoding == encoding && it->second.repetition == repetition; ++it)
    keys.push_back(it->second);
  return keys;
}

std::vector<OpenFrames::Numbered> OpenFrames::before(std::uint16_t encoding, std::uint16_t repetition) const {
  std::vector<Numbered> out;
  const auto add = [&](std::uint16_t first, std::uint16_t last) {
    for (auto it = ordered_.lower_bound({encoding, first, 0});
         it != ordered_.end() && it->second.encoding == encoding && it->second.repetition <= last; ++it)
      out.emplace_back(std::get<std::uint64_t>(it->first), it->second);
  };
  constexpr std::uint16_t kBack = 32767, kLargest = std::numeric_limits<std::uint16_t>::max();
  const auto first = static_cast<std::uint16_t>(repetition - kBack);
  if (repetition > 0) add(first < repetition ? first : std::uint16_t{0}, static_cast<std::uint16_t>(repetition - 1));
  if (first > repetition) add(first, kLargest);
  return out;
}

}  // namespace echotrain
