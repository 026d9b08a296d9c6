#include "gadgets/cartesian/cartesian_kspace.h"

#include <map>
#include <string>
#include <utility>

#include "gadgets/shared/program/item_memory.h"

namespace echotrain {

void CartesianKSpace::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  spaces_ = cartesian_spaces(header, scan);
  frames_.start(header, spaces_, options_, scan);
  put_back_.start(header, spaces_, options_, scan);
}

void CartesianKSpace::process(Readouts&& readouts, const Emit<KSpace>& emit) {
  refuse_reversed(readouts);
  if (!readouts.heads.empty()) {
    const std::uint16_t encoding = readouts.heads[0].encoding_space_ref;
    if (!frames_.wanted(encoding) && !put_back_.wanted(encoding)) note_unused_calibration(readouts, *scan_);
  }
  frames_.add(readouts);
  put_back_.keep(readouts);
  if (readouts.kind != protocol::ReadoutKind::imaging) return;
  const CartesianSpace& space = spaces_.at(readouts.frame->key.encoding);
  Buffer& buffer = open_[readouts.frame->id];
  if (!readouts.heads.empty()) add(buffer, space, readouts);
  if (!readouts.last) return;
  Buffer whole = std::move(buffer);
  open_.erase(readouts.frame->id);
  frames_.frame_ends(
      *readouts.frame, [&] { return whole.data ? complete(std::move(whole), space, readouts) : KSpace{}; }, emit);
}

void CartesianKSpace::finish(End how, const Emit<KSpace>& emit) { frames_.finish(how, emit); }

void CartesianKSpace::add(Buffer& buffer, const CartesianSpace& space, const Readouts& readouts) {
  const std::int64_t coils = readouts.data.shape()[1], samples = readouts.data.shape()[2];
  if (!buffer.data) {
    buffer.hits.assign(static_cast<std::size_t>(space.rows()), 0);
    buffer.data = allocate_item<cfloat>(scan_->compute, {coils, space.rows(), space.matrix[0]});
    scan_->compute.clear(buffer.data.view());
  }
  buffer.white = buffer.white && readouts.white;
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
  const auto [frame, factors, image_noise, lines] = close_lines(*readouts.frame, space, buffer.hits, buffer.samples);
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
          nullptr,
          buffer.white && filled == 0 ? image_noise : 0};
}

}  // namespace echotrain
