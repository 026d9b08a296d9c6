#include "gadgets/cartesian/calibration_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace echotrain {
namespace {

constexpr std::uint64_t kReference = 1ull << 19 | 1ull << 20;  // alone, and for images, too

FrameKey frame_of(const protocol::AcquisitionHeader& head) {
  return {head.encoding_space_ref, head.idx.slice,      head.idx.contrast,
          head.idx.phase,          head.idx.repetition, head.idx.set};
}

FrameKey block_of(const FrameKey& frame) {
  FrameKey key;
  key.encoding = frame.encoding;
  key.slice = frame.slice;
  key.contrast = frame.contrast;
  key.set = frame.set;
  return key;
}

}  // namespace

std::optional<std::array<std::int64_t, 4>> full_box(const std::vector<std::int32_t>& hits, std::int64_t ny,
                                                    std::int64_t nz) {
  std::array<std::int64_t, 4> box = {ny / 2, nz / 2, ny / 2, nz / 2};
  const auto full = [&](std::int64_t y0, std::int64_t z0, std::int64_t y1, std::int64_t z1) {
    if (y0 < 0 || z0 < 0 || y1 >= ny || z1 >= nz) return false;
    for (std::int64_t z = z0; z <= z1; ++z)
      for (std::int64_t y = y0; y <= y1; ++y)
        if (hits[static_cast<std::size_t>(z * ny + y)] == 0) return false;
    return true;
  };
  if (!full(box[0], box[1], box[2], box[3])) return std::nullopt;
  for (bool grown = true; grown;) {
    grown = false;
    auto& [y0, z0, y1, z1] = box;
    if (full(y0 - 1, z0, y0 - 1, z1)) --y0, grown = true;
    if (full(y1 + 1, z0, y1 + 1, z1)) ++y1, grown = true;
    if (full(y0, z0 - 1, y1, z0 - 1)) --z0, grown = true;
    if (full(y0, z1 + 1, y1, z1 + 1)) ++z1, grown = true;
  }
  return box;
}

void CalibrationLines::start(const protocol::Header& header, const std::vector<CartesianSpace>& spaces, Scan& scan) {
  scan_ = &scan;
  spaces_ = spaces;
  for (const CartesianSpace& space : spaces) {
    Band band;
    for (std::size_t a = 0; a < 2; ++a) {
      band.extent[a] = std::min(kMost, space.matrix[a + 1]);
      band.first[a] = space.matrix[a + 1] / 2 - band.extent[a] / 2;
    }
    bands_.push_back(band);
  }
  for (const auto& encoding : header.encodings)
    apart_.push_back(encoding.calibration_mode == "separate" || encoding.calibration_mode == "external");
}

/// The block that this readout belongs to, which begins with it if need be; null when none does.
CalibrationLines::Block* CalibrationLines::block_for(const protocol::AcquisitionHeader& head, std::int64_t coils) {
  const FrameKey frame = frame_of(head), key = block_of(frame);
  if (whole_.contains(key)) return nullptr;
  const bool imaging = protocol::readout_kind(head) == protocol::ReadoutKind::imaging;
  if (imaging && apart(key)) return nullptr;
  auto at = open_.find(key);
  if (at == open_.end()) {
    at = open_.try_emplace(key).first;
    Block& made = at->second;
    const Band& band = bands_[key.encoding];
    made.owner = frame;
    made.separate = apart(key);
    made.rows = scan_->compute.zeros<cfloat>({coils, band.extent[0] * band.extent[1], spaces_[key.encoding].matrix[0]});
    made.hits.assign(static_cast<std::size_t>(band.extent[0] * band.extent[1]), 0);
    made.references.assign(made.hits.size(), 0);
  }
  Block& block = at->second;
  if (!block.separate && block.owner != frame) return nullptr;
  if (block.rows.shape()[0] != coils)
    throw ClientError(fmt::format("calibration readouts of slice {} come with {} coils and with {}", key.slice,
                                  block.rows.shape()[0], coils));
  return &block;
}

void CalibrationLines::add(const Readouts& readouts) {
  const bool imaging = readouts.kind == protocol::ReadoutKind::imaging;
  if ((!imaging && readouts.kind != protocol::ReadoutKind::calibration) || readouts.heads.empty()) return;
  if (!wanted(readouts.heads[0].encoding_space_ref)) return;
  const CartesianSpace& space = spaces_.at(readouts.heads[0].encoding_space_ref);
  const Band& band = bands_.at(readouts.heads[0].encoding_space_ref);
  const std::int64_t coils = readouts.data.shape()[1], samples = readouts.data.shape()[2];
  const auto row_of = [&](const protocol::AcquisitionHeader& head) -> std::int32_t {
    const std::int64_t y = head.idx.kspace_encode_step_1 + space.offset_y - band.first[0],
                       z = head.idx.kspace_encode_step_2 + space.offset_z - band.first[1];
    const bool inside = y >= 0 && y < band.extent[0] && z >= 0 && z < band.extent[1];
    return inside ? static_cast<std::int32_t>(z * band.extent[0] + y) : -1;
  };
  const auto add_all = [&](std::int64_t begin, std::int64_t end, const numerics::LinePlacement& placement) {
    while (begin < end) {  // stretches of one block
      const auto& head = readouts.heads[static_cast<std::size_t>(begin)];
      const FrameKey frame = frame_of(head);
      finish_separate(frame, imaging);
      const bool reference = (head.flags & kReference) != 0;
      const auto open = open_.find(block_of(frame));
      if (imaging && !reference && open != open_.end() && open->second.flagged && open->second.owner == frame &&
          without_gap(open->second, band))
        finish(open->first);
      std::int64_t until = begin;
      std::vector<std::int32_t> rows;
      for (; until < end; ++until) {
        const auto& next = readouts.heads[static_cast<std::size_t>(until)];
        if (frame_of(next) != frame || ((next.flags & kReference) != 0) != reference) break;
        rows.push_back(row_of(next));
      }
      if (Block* block = block_for(head, coils)) {
        bool any = false;
        for (const std::int32_t row : rows)
          if (row >= 0) {
            any = true;
            ++block->hits[static_cast<std::size_t>(row)];
            if (reference) block->references[static_cast<std::size_t>(row)] = 1;
          }
        block->flagged = block->flagged || reference;
        if (any) {
          block->samples.add(placement);
          numerics::add_lines(scan_->compute,
                              readouts.data.view().part(begin * coils * samples, {until - begin, coils, samples}),
                              {rows.data(), {until - begin}}, placement, block->rows.view());
        }
      }
      begin = until;
    }
  };
  if (imaging) {
    for_placements(readouts, space, add_all);
  } else {
    bool fits = true;
    try {
      for_placements(readouts, space, [](std::int64_t, std::int64_t, const numerics::LinePlacement&) {});
    } catch (const ClientError& error) {
      fits = false;
      scan_->warn(fmt::format("calibration readouts are left out: {}", error.what()));
    }
    if (fits) for_placements(readouts, space, add_all);
  }
}

/// Whether all rows of the box that holds the reference lines have come.
bool CalibrationLines::without_gap(const Block& block, const Band& band) const {
  std::array<std::int64_t, 4> box = {band.extent[0], band.extent[1], -1, -1};
  for (std::size_t row = 0; row < block.references.size(); ++row) {
    if (block.references[row] == 0) continue;
    const auto y = static_cast<std::int64_t>(row) % band.extent[0], z = static_cast<std::int64_t>(row) / band.extent[0];
    box = {std::min(box[0], y), std::min(box[1], z), std::max(box[2], y), std::max(box[3], z)};
  }
  const auto found = full_box(block.hits, band.extent[0], band.extent[1]);
  return found && (*found)[0] <= box[0] && (*found)[1] <= box[1] && (*found)[2] >= box[2] && (*found)[3] >= box[3];
}

void CalibrationLines::finish_separate(const FrameKey& now, bool imaging) {
  if (!apart(now)) return;
  std::vector<FrameKey> over;
  for (const auto& [key, block] : open_)
    if (block.separate && key.encoding == now.encoding && imaging == (key.slice == now.slice)) over.push_back(key);
  for (const FrameKey& key : over) finish(key);
}

void CalibrationLines::frame_ends(const Frame& frame) {
  const FrameKey owner = frame_of(frame.reference);
  const auto at = open_.find(block_of(owner));
  if (at != open_.end() && !at->second.separate && at->second.owner == owner) finish(at->first);
}

void CalibrationLines::finish(const FrameKey& key) {
  auto node = open_.extract(key);
  Block& block = node.mapped();
  const Band& band = bands_.at(key.encoding);
  numerics::Context& compute = scan_->compute;
  const auto box = full_box(block.hits, band.extent[0], band.extent[1]);
  if (!box) {
    if (block.flagged) scan_->warn("reference lines without the middle of k-space are left out");
    return;
  }
  const auto [x0, x1] = block.samples.range();
  if (x0 >= x1) {
    if (block.flagged) scan_->warn("reference lines that have no samples in common are left out");
    return;
  }
  std::vector<float> factors;
  for (const std::int32_t hits : block.hits) factors.push_back(1.0f / static_cast<float>(std::max(hits, 1)));
  if (std::any_of(factors.begin(), factors.end(), [](float f) { return f < 1; }))
    numerics::scale_lines(compute, {factors.data(), {static_cast<std::int64_t>(factors.size())}}, block.rows.view());

  const auto [y0, z0, y1, z1] = *box;
  const std::int64_t coils = block.rows.shape()[0], nx = block.rows.shape()[2];
  const std::int64_t ny = y1 - y0 + 1, nz = z1 - z0 + 1, width = x1 - x0;
  const auto out = std::make_shared<Calibration>();
  out->id = next_id_++;
  out->source = block.separate  ? Calibration::Source::separate
                : block.flagged ? Calibration::Source::embedded
                                : Calibration::Source::center;
  out->key = key;
  out->data = compute.allocate<cfloat>({coils, nz, ny, width});
  out->first = {x0, band.first[0] + y0, band.first[1] + z0};
  out->matrix = spaces_.at(key.encoding).matrix;
  // Rows of a plane lie one behind another, unless samples are cut away.
  const bool whole = width == nx;
  const std::int64_t runs = whole ? 1 : ny, length = whole ? ny * nx : width;
  for (std::int64_t coil = 0; coil < coils; ++coil)
    for (std::int64_t z = 0; z < nz; ++z)
      for (std::int64_t run = 0; run < runs; ++run) {
        const std::int64_t from = ((coil * band.extent[1] + z0 + z) * band.extent[0] + y0 + run) * nx + x0;
        const std::int64_t to = ((coil * nz + z) * ny + run) * width;
        compute.copy<cfloat>(block.rows.cview().part(from, {length}), out->data.view().part(to, {length}));
      }
  whole_.emplace(key, out);
  new_.push_back(out);
}

std::shared_ptr<const Calibration> CalibrationLines::of(const FrameKey& key) const {
  if (const auto exact = whole_.find(block_of(key)); exact != whole_.end()) return exact->second;
  for (const auto& [other, block] : whole_)  // in rising order
    if (other.encoding == key.encoding && other.slice == key.slice) return block;
  return nullptr;
}

std::vector<std::shared_ptr<const Calibration>> CalibrationLines::take_new() { return std::exchange(new_, {}); }

}  // namespace echotrain
