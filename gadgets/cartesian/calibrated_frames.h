// Whole frames, passed on with their calibration blocks (reference lines).
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/cartesian/calibration_lines.h"
#include "gadgets/shared/hybrid_frames.h"

namespace echotrain {

/// Emits frames (KSpace or HybridFrame) with their blocks and the notes of calibration_notes(), in the order of their
/// ends. Frames whose block is made from several frames wait for it, at most CalibrationLines::kMostHeld of a slice,
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
  /// True if blocks are made in this encoding space.
  bool wanted(std::uint16_t encoding) const { return calibration_.wanted(encoding); }
  /// Takes the reference lines of any readouts; throws as CalibrationLines::add() does.
  void add(const Readouts& readouts) { calibration_.add(readouts); }
  /// Forwards to CalibrationLines::ready().
  std::shared_ptr<const Calibration> ready(const FrameKey& key) const { return calibration_.ready(key); }
  /// Call it when the frame's last readout has been added: `whole` makes the frame, or finds that there is none (no
  /// coils). Throws ClientError when the frame's coils are not its block's.
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
  static std::int64_t coils_of(const HybridFrame& whole) { return whole.half.shape()[0]; }

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
  std::map<FrameKey, std::vector<Whole>> held_;  // whole frames that wait for their block, by
                                                 // CalibrationLines::block_of()
};

}  // namespace echotrain
