// Whole frames, and the blocks of reference lines that go on with them.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/cartesian/calibration_lines.h"
#include "gadgets/shared/half_frames.h"

namespace echotrain {

/// Gives frames (KSpace or HalfFrame) with their blocks and what calibration_notes() says of these, in the order of
/// their ends. Frames whose block is to be made of several wait for it, at most CalibrationLines::kMostHeld of a slice,
/// contrast and set.
template <class Whole>
class CalibratedFrames {
 public:
  void start(const protocol::Header& header, const std::vector<CartesianSpace>& spaces, const ReferenceOptions& options,
             Scan& scan) {
    scan_ = &scan;
    spaces_ = spaces;
    calibration_.start(header, spaces, options, scan);
  }
  /// Whether blocks are made in this encoding space.
  bool wanted(std::uint16_t encoding) const { return calibration_.wanted(encoding); }
  /// Takes what blocks need of any readouts; errors of CalibrationLines::add().
  void add(const Readouts& readouts) { calibration_.add(readouts); }
  /// CalibrationLines::ready()
  std::shared_ptr<const Calibration> ready(const FrameKey& key) const { return calibration_.ready(key); }
  /// The frame's last readout has been added: `whole` gives the frame, and may find that there is none (no coils).
  /// ClientError when the frame's coils are not its block's.
  template <class MakeWhole>
  void frame_ends(const Frame& frame, const MakeWhole& whole, const Emit<Whole>& emit) {
    calibration_.frame_ends(frame);
    const FrameKey key = CalibrationLines::block_of(frame.key);
    if (Whole made = whole(); made.frame) held_[key].push_back(std::move(made));
    if (!calibration_.holds(key)) give(key, emit);
  }
  void finish(End how, const Emit<Whole>& emit) {
    if (how == End::truncated) {
      std::size_t frames = 0;
      for (const auto& [key, held] : held_) frames += held.size();
      if (frames > 0)
        scan_->warn(std::to_string(frames) + " frame(s) dropped: the scan ended before their calibration was whole");
      held_.clear();
      return;
    }
    calibration_.scan_ends();
    while (!held_.empty()) give(FrameKey(held_.begin()->first), emit);
  }

 private:
  static std::int64_t coils_of(const KSpace& whole) { return whole.data.shape()[0]; }
  static std::int64_t coils_of(const HalfFrame& whole) { return whole.half.shape()[0]; }

  void give(const FrameKey& key, const Emit<Whole>& emit) {
    auto held = held_.extract(key);
    if (held.empty()) return;
    for (Whole& whole : held.mapped()) {
      scan_->compute.check_stop();
      const FrameKey& frame = whole.frame->key;
      whole.calibration = calibration_.of(frame);
      if (spaces_.at(frame.encoding).accelerated()) check_coils(whole.calibration.get(), frame, coils_of(whole));
      if (calibration_.wanted(frame.encoding))
        whole.frame = with_notes(*whole.frame, calibration_notes(whole.calibration.get(), frame));
      emit(std::move(whole));
    }
  }

  Scan* scan_ = nullptr;
  std::vector<CartesianSpace> spaces_;
  CalibrationLines calibration_;
  std::map<FrameKey, std::vector<Whole>> held_;  // whole frames by CalibrationLines::block_of(), for their block
};

}  // namespace echotrain
