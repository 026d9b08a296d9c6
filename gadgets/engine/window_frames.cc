#include "gadgets/engine/window_frames.h"

#include <algorithm>
#include <utility>

#include "gadgets/engine/dropped_frames.h"
#include "gadgets/engine/open_frames.h"
#include "gadgets/engine/readout_batch.h"

namespace echotrain {

void WindowFrames::push(Scan& scan, const protocol::Acquisition& acquisition, Instant taken,
                        std::optional<std::int64_t> behind, std::uint64_t& next_id, const EmitReadouts& emit) {
  FrameKey key = key_of(acquisition.head);
  key.repetition = 0;  // the window continues across repetitions
  auto it = windows_.find(key);
  if (it == windows_.end()) {
    refuse_more_frames(windows_.size());
    it = windows_
             .emplace(
                 key,
                 Window{.readouts = {scan.compute, readouts_}, .number = windows_.size() + 1, .until_next = readouts_})
             .first;
  }
  Window& window = it->second;
  window.readouts.push(acquisition);
  ++window.pending;
  ++window.ungiven;
  // A window that moves takes its new readouts in two parts: the last readout comes by itself, so that little is left
  // to do after it.
  const bool moves = scan.delivery == Delivery::windows, last = --window.until_next == 0;
  if (!last && !(moves && window.until_next == 1)) return;
  const bool first = !window.frame;
  // Tests whether nothing of the frame has been handed on. Windows share the count of waiting readouts.
  if (first && !window.left_out)
    window.left_out = behind && *behind >= window.until_next + stride_ * static_cast<std::int64_t>(windows_.size());
  if (window.left_out) {
    if (last) leave_out(scan, window, next_id);
    return;
  }
  if (first) {
    window.frame = next_of(key, window, next_id);
    note_dropped(scan, *window.frame);
  }
  const std::shared_ptr<Frame> frame = window.frame;
  if (last) {
    frame->key.repetition = window.readouts.back().idx.repetition;
    note_arrival(*frame, acquisition);
    frame->arrival.taken = taken;
    window.until_next = stride_;
    window.pending = 0;
    window.frame.reset();
  }
  const auto hand_on = [&](Readouts&& readouts) {
    readouts.frame = frame;
    emit(std::move(readouts));
  };
  if (!moves) return window.readouts.give(stride_, hand_on);
  // After frames that were left out, readouts that entered may have left again.
  window.readouts.give_newest(std::min(std::exchange(window.ungiven, 0), window.readouts.size()), first, last, hand_on);
  if (last) window.readouts.drop(stride_);
}

/// The window skips this position. Other frames keep their numbers.
void WindowFrames::leave_out(Scan& scan, Window& window, std::uint64_t& next_id) const {
  ++next_id;
  drop_frame(scan);
  window.left += stride_;
  window.until_next = stride_;
  window.pending = 0;
  window.left_out = false;
  window.readouts.drop(stride_);
}

/// Makes the window's next position. Its repetition is that of its last readout, which is not known yet.
std::shared_ptr<Frame> WindowFrames::next_of(const FrameKey& key, Window& window, std::uint64_t& next_id) const {
  auto frame = std::make_shared<Frame>();
  frame->id = next_id++;
  frame->key = key;
  frame->reference = window.readouts.front();
  frame->readouts = frame->expected_readouts = readouts_;
  frame->window = window.number;
  frame->window_begin = std::exchange(window.left, window.left + stride_);
  return frame;
}

WindowFrames::LeftOver WindowFrames::finish() {
  LeftOver out;
  for (const auto& [key, window] : windows_) {
    out.windows += window.pending > 0 ? 1 : 0;
    out.readouts += window.pending;
  }
  windows_.clear();
  return out;
}

}  // namespace echotrain
