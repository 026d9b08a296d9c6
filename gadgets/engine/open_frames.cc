#include "gadgets/engine/open_frames.h"

#include <algorithm>
#include <utility>

#include "gadgets/engine/readout_batch.h"

namespace echotrain {

OpenFrame& OpenFrames::open(const FrameKey& key, const protocol::AcquisitionHeader& head) {
  auto [it, fresh] = open_.try_emplace(key, scan_->compute);
  if (fresh) {
    it->second.frame = std::make_shared<Frame>();
    it->second.frame->id = next_id_++;
    it->second.frame->key = key;
    it->second.frame->reference = head;
  }
  return it->second;
}

const OpenFrame* OpenFrames::find(const FrameKey& key) const {
  const auto it = open_.find(key);
  return it == open_.end() ? nullptr : &it->second;
}

void OpenFrames::add(OpenFrame& frame, protocol::Acquisition&& acquisition) {
  ++frame.frame->readouts;
  note_arrival(*frame.frame, acquisition);
  frame.waiting.push_back(std::move(acquisition));
}

void OpenFrames::close(const FrameKey& key, const EmitReadouts& emit) {
  const auto it = open_.find(key);
  OpenFrame frame = std::move(it->second);
  open_.erase(it);
  frame.frame->arrival.taken = taken_;
  flush(frame, true, emit);
}

void OpenFrames::flush(OpenFrame& frame, bool last, const EmitReadouts& emit) {
  if (frame.waiting.empty() && !last) return;
  Readouts readouts = make_batch(scan_->compute, frame.waiting, true);
  readouts.frame = frame.frame;
  readouts.first = !std::exchange(frame.started, true);
  readouts.last = last;
  frame.waiting.clear();
  emit(std::move(readouts));
}

void OpenFrames::flush_all(const EmitReadouts& emit) {
  for (auto& [key, frame] : open_) flush(frame, false, emit);
}

std::vector<FrameKey> OpenFrames::keys() const {
  std::vector<const Frame*> frames;
  for (const auto& [key, open] : open_) frames.push_back(open.frame.get());
  std::sort(frames.begin(), frames.end(), [](const Frame* a, const Frame* b) { return a->id < b->id; });
  std::vector<FrameKey> keys;
  for (const Frame* frame : frames) keys.push_back(frame->key);
  return keys;
}

}  // namespace echotrain
