#include "gadgets/cartesian/cartesian_kspace.h"

#include <map>
#include <string>
#include <utility>

namespace echotrain {

void CartesianKSpace::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  spaces_ = cartesian_spaces(header, scan);
  calibration_.start(header, spaces_, options_, scan);
  put_back_.start(header, spaces_, options_, scan);
}

void CartesianKSpace::process(Readouts&& readouts, const Emit<KSpace>& emit) {
  refuse_reversed(readouts);
  if (!readouts.heads.empty()) {
    const std::uint16_t encoding = readouts.heads[0].encoding_space_ref;
    if (!calibration_.wanted(encoding) && !put_back_.wanted(encoding)) note_unused_calibration(readouts, *scan_);
  }
  calibration_.add(readouts);
  put_back_.keep(readouts);
  if (readouts.kind != protocol::ReadoutKind::imaging) return;
  const CartesianSpace& space = spaces_.at(readouts.frame->key.encoding);
  Buffer& buffer = open_[readouts.frame->id];
  if (!readouts.heads.empty()) add(buffer, space, readouts);
  if (!readouts.last) return;
  Buffer whole = std::move(buffer);
  open_.erase(readouts.frame->id);
  calibration_.frame_ends(*readouts.frame);
  const FrameKey key = CalibrationLines::block_of(readouts.frame->key);
  if (whole.data) held_[key].push_back(complete(std::move(whole), space, readouts));
  if (!calibration_.holds(key)) give_held(key, emit);
}

/// Frames in the order of their ends, with their block.
void CartesianKSpace::give_held(const FrameKey& key, const Emit<KSpace>& emit) {
  auto held = held_.extract(key);
  if (held.empty()) return;
  for (KSpace& kspace : held.mapped()) {
    scan_->compute.check_stop();
    const FrameKey& frame = kspace.frame->key;
    kspace.calibration = calibration_.of(frame);
    if (spaces_.at(frame.encoding).accelerated()) check_coils(kspace.calibration.get(), frame, kspace.data.shape()[0]);
    if (calibration_.wanted(frame.encoding))
      kspace.frame = with_notes(*kspace.frame, calibration_notes(kspace.calibration.get(), frame));
    emit(std::move(kspace));
  }
}

void CartesianKSpace::finish(End how, const Emit<KSpace>& emit) {
  if (how == End::truncated) {
    std::size_t frames = 0;
    for (const auto& [key, held] : held_) frames += held.size();
    if (frames > 0)
      scan_->warn(std::to_string(frames) + " frame(s) dropped: the scan ended before their calibration was whole");
    held_.clear();
    return;
  }
  calibration_.scan_ends();
  while (!held_.empty()) give_held(FrameKey(held_.begin()->first), emit);
}

void CartesianKSpace::add(Buffer& buffer, const CartesianSpace& space, const Readouts& readouts) {
  const std::int64_t coils = readouts.data.shape()[1], samples = readouts.data.shape()[2];
  if (!buffer.data) {
    buffer.paid = std::make_unique<numerics::MemoryShare>(scan_->compute.account());
    buffer.paid->grow_to(static_cast<std::uint64_t>(space.rows()) * sizeof(std::int32_t));
    buffer.hits.assign(static_cast<std::size_t>(space.rows()), 0);
    buffer.data = scan_->compute.zeros<cfloat>({coils, space.rows(), space.matrix[0]});
  }
  const std::vector<std::int32_t> rows = rows_of(readouts, space, buffer.hits, *scan_);
  for_placements(readouts, space, [&](std::int64_t begin, std::int64_t end, const numerics::LinePlacement& placement) {
    buffer.samples.add(placement);
    numerics::add_lines(scan_->compute,
                        readouts.data.view().part(begin * coils * samples, {end - begin, coils, samples}),
                        {rows.data() + begin, {end - begin}}, placement, buffer.data.view());
  });
}

KSpace CartesianKSpace::complete(Buffer buffer, const CartesianSpace& space, const Readouts& readouts) {
  const std::int64_t coils = buffer.data.shape()[0];
  const std::int64_t filled = put_back_.give(
      *readouts.frame, space, coils, buffer.samples, buffer.hits,
      [&](const auto& lines, const std::vector<std::int32_t>& rows, const auto& placement) {
        numerics::add_lines(scan_->compute, lines, {rows.data(), {lines.shape()[0]}}, placement, buffer.data.view());
      });
  const auto [frame, factors, lines] = close_lines(*readouts.frame, space, buffer.hits, buffer.samples);
  if (!factors.empty())
    numerics::scale_lines(scan_->compute, {factors.data(), {static_cast<std::int64_t>(factors.size())}},
                          buffer.data.view());
  const auto [nx, ny, nz] = space.matrix;
  const std::map<std::string, std::string> notes = {{"put_back_lines", std::to_string(filled)}};
  return {put_back_.wanted(readouts.frame->key.encoding) ? with_notes(*frame, notes) : frame,
          buffer.data.reshaped({coils, nz, ny, nx}),
          space.geometry.padded,
          space.geometry.image,
          lines,
          nullptr};
}

}  // namespace echotrain
