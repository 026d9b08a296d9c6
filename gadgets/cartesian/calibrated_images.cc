#include "gadgets/cartesian/calibrated_images.h"

namespace echotrain {

void CalibratedImages::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  lines_.start(header, numerics::Direction::inverse, options_, scan);
  frames_.start(header, lines_.spaces(), options_, scan);
  images_->start(header, scan);
}

void CalibratedImages::process(Readouts&& readouts, const Emit<CoilImages>& emit) {
  refuse_reversed(readouts);
  if (!readouts.heads.empty()) {
    const std::uint16_t encoding = readouts.heads[0].encoding_space_ref;
    if (!frames_.wanted(encoding) && !lines_.puts_back(encoding)) note_unused_calibration(readouts, *scan_);
  }
  frames_.add(readouts);
  lines_.keep(readouts);
  if (readouts.kind != protocol::ReadoutKind::imaging) return;
  lines_.add(readouts);
  open_ = readouts.last ? nullptr : readouts.frame;
  if (!readouts.last) return;
  frames_.frame_ends(
      *readouts.frame, [&] { return lines_.end(*readouts.frame); },
      [&](HybridFrame&& whole) { images_->process(std::move(whole), emit); });
}

void CalibratedImages::rest(const Emit<CoilImages>& /*emit*/) {
  const auto frame = std::exchange(open_, nullptr);
  if (!frame || scan_->behind) return;
  const auto calibration = frames_.ready(frame->key);
  if (!calibration) return;
  HybridFrame expected = lines_.expected(*frame);
  if (!expected.lines) return;
  expected.frame = frame;
  expected.calibration = calibration;
  images_->prepare(expected);
}

void CalibratedImages::finish(End how, const Emit<CoilImages>& emit) {
  frames_.finish(how, [&](HybridFrame&& whole) { images_->process(std::move(whole), emit); });
}

}  // namespace echotrain
