#include "gadgets/cartesian/calibration_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace echotrain {
namespace {

constexpr std::uint64_t kReference = 1ull << 19 | 1ull << 20;  // alone, or for images, too

}  // namespace

FrameKey CalibrationLines::block_of(const FrameKey& frame) {
  FrameKey key;
  key.encoding = frame.encoding;
  key.slice = frame.slice;
  key.contrast = frame.contrast;
  key.set = frame.set;
  return key;
}

CalibrationLines::Rule CalibrationLines::rule_of(const protocol::Encoding& encoding, const CartesianSpace& space,
                                                 bool accelerated) const {
  using From = ReferenceOptions::From;
  switch (options_.calibration) {
    case From::none:
      return Rule::none;
    case From::embedded:
      return Rule::embedded;
    case From::separate:
      return Rule::separate;
    case From::sliding:
      return Rule::sliding;
    case From::center:
      return Rule::center;
    case From::average:
    case From::automatic:
      break;
  }
  if (encoding.calibration_mode == "separate" || encoding.calibration_mode == "external") return Rule::separate;
  if (space.accelerated() && options_.calibration == From::average) return Rule::average;
  if (space.accelerated()) return encoding.calibration_mode == "interleaved" ? Rule::sliding : Rule::automatic;
  return accelerated ? Rule::separate : Rule::none;  // perhaps the lines for another encoding space
}

void CalibrationLines::start(const protocol::Header& header, const std::vector<CartesianSpace>& spaces,
                             const ReferenceOptions& options, Scan& scan) {
  scan_ = &scan;
  spaces_ = spaces;
  options_ = options;
  for (const CartesianSpace& space : spaces) {
    Band band;
    for (std::size_t a = 0; a < 2; ++a) {
      band.extent[a] = std::min(options.calibration_lines, space.matrix[a + 1]);
      band.first[a] = space.matrix[a + 1] / 2 - band.extent[a] / 2;
    }
    bands_.push_back(band);
  }
  const bool accelerated = std::any_of(spaces.begin(), spaces.end(), [](const auto& s) { return s.accelerated(); });
  for (std::size_t e = 0; e < spaces.size(); ++e) {
    fov_mm_.push_back(header.encodings[e].encoded.fov_mm);
    const auto& phase = header.encodings[e].phase;
    phases_.push_back(phase ? phase->maximum - phase->minimum + 1 : 1);
    rules_.push_back(rule_of(header.encodings[e], spaces[e], accelerated));
    moving_.push_back(header.encodings[e].calibration_mode == "interleaved");
    external_.push_back(header.encodings[e].calibration_mode == "external");
  }
}

/// True if the slice has reference lines, perhaps of another contrast or set.
bool CalibrationLines::slice_has_references(const FrameKey& key) const {
  const auto same = [&](const FrameKey& other) {
    return other.slice == key.slice && (other.encoding == key.encoding || apart(other));
  };
  return std::any_of(open_.begin(), open_.end(), [&](const auto& o) { return same(o.first) && o.second.flagged; }) ||
         std::any_of(whole_.begin(), whole_.end(),
                     [&](const auto& w) { return same(w.first) && w.second->source != Calibration::Source::center; });
}

/// The block that a readout of this frame belongs to; it is opened if need be. Null when there is none.
CalibrationLines::Block* CalibrationLines::block_for(const FrameKey& frame, bool imaging, bool reference,
                                                     std::int64_t coils) {
  const FrameKey key = block_of(frame);
  const FrameKey mine = open_key(frame);
  if (!needs_more(key) && !open_.contains(mine)) return nullptr;
  if (imaging && apart(key)) return nullptr;
  auto at = open_.find(mine);
  if (at == open_.end()) {
    if (!reference && lent_.contains(key)) return nullptr;
    at = open_.try_emplace(mine).first;
    Block& made = at->second;
    const Band& band = bands_[key.encoding];
    made.owner = frame;
    made.rows = scan_->compute.zeros<cfloat>({coils, band.extent[0] * band.extent[1], spaces_[key.encoding].matrix[0]});
    made.hits.assign(static_cast<std::size_t>(band.extent[0] * band.extent[1]), 0);
    made.references.assign(made.hits.size(), 0);
  }
  Block& block = at->second;
  if (!apart(key) && rules_.at(key.encoding) != Rule::average && block.owner != frame) return nullptr;
  if (block.rows.shape()[0] != coils)
    throw ClientError(
        fmt::format("calibration readouts of slice {} come with {} coils and with {}; coils must not change within a "
                    "scan",
                    key.slice, block.rows.shape()[0], coils));
  return &block;
}

void CalibrationLines::add(const Readouts& readouts) {
  const bool imaging = readouts.kind == protocol::ReadoutKind::imaging;
  if ((!imaging && readouts.kind != protocol::ReadoutKind::calibration) || readouts.heads.empty()) return;
  const std::uint16_t encoding = readouts.heads[0].encoding_space_ref;
  if (!wanted(encoding) || (!imaging && rules_.at(encoding) == Rule::center)) return;
  if (!imaging && !placements_fit(readouts, spaces_.at(encoding), *scan_)) return;
  for_placements(readouts, spaces_.at(encoding),
                 [&](std::int64_t begin, std::int64_t end, const numerics::LinePlacement& placement) {
                   add_run(readouts, begin, end, placement);
                 });
}

/// Adds readouts at the same place of their lines.
void CalibrationLines::add_run(const Readouts& readouts, std::int64_t begin, std::int64_t end,
                               const numerics::LinePlacement& placement) {
  const std::uint16_t encoding = readouts.heads[0].encoding_space_ref;
  const CartesianSpace& space = spaces_.at(encoding);
  const Band& band = bands_.at(encoding);
  const bool imaging = readouts.kind == protocol::ReadoutKind::imaging;
  const std::int64_t coils = readouts.data.shape()[1], samples = readouts.data.shape()[2];
  const auto band_row = [&](const protocol::AcquisitionHeader& head) -> std::int32_t {
    const std::int64_t y = head.idx.kspace_encode_step_1 + space.offset_y - band.first[0],
                       z = head.idx.kspace_encode_step_2 + space.offset_z - band.first[1];
    const bool inside = y >= 0 && y < band.extent[0] && z >= 0 && z < band.extent[1];
    return inside ? static_cast<std::int32_t>(z * band.extent[0] + y) : -1;
  };
  const auto is_reference = [&](const protocol::AcquisitionHeader& head) {
    return (head.flags & kReference) != 0 && rules_.at(encoding) != Rule::center;
  };
  while (begin < end) {  // stretches of one block
    const auto& head = readouts.heads[static_cast<std::size_t>(begin)];
    const FrameKey frame = frame_of(head);
    finish_separate(frame, imaging);
    const bool reference = is_reference(head);
    if (imaging && !reference) end_run_of_references(frame);
    std::int64_t until = begin;
    std::vector<std::int32_t> rows;
    for (; until < end; ++until) {
      const auto& next = readouts.heads[static_cast<std::size_t>(until)];
      if (frame_of(next) != frame || is_reference(next) != reference) break;
      rows.push_back(band_row(next));
    }
    if (Block* block = block_for(frame, imaging, reference, coils)) {
      bool any = false;
      for (const std::int32_t row : rows)
        if (row >= 0) {
          any = true;
          ++block->hits[static_cast<std::size_t>(row)];
          if (reference) block->references[static_cast<std::size_t>(row)] = 1;
        }
      block->flagged = block->flagged || reference;
      if (any) {
        block->given = block->given && !reference;
        block->in_turns = block->in_turns || block->interrupted;
        block->interrupted = block->interrupted && !reference;
        block->samples.add(placement);
        numerics::add_lines(scan_->compute,
                            readouts.data.view().part(begin * coils * samples, {until - begin, coils, samples}),
                            {rows.data(), {until - begin}}, placement, block->rows.view());
      }
    }
    begin = until;
  }
}

/// True if all rows of the box that holds the reference lines have come.
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
  if (std::find(rules_.begin(), rules_.end(), Rule::separate) == rules_.end()) return;
  std::vector<FrameKey> over;
  for (auto& [key, block] : open_) {
    if (!apart(key) || imaging != (key.slice == now.slice)) continue;
    const bool for_others = !spaces_.at(key.encoding).accelerated();
    if (imaging && (for_others || key.encoding == now.encoding)) over.push_back(key);
    if (!imaging && key.encoding == now.encoding) end_run_of_slice(key, block);
  }
  for (const FrameKey& key : over) finish(key);
}

/// True if enough rows have come to make a block before its end.
bool CalibrationLines::enough(const Block& block, const Band& band) const {
  const auto rows = std::count(block.references.begin(), block.references.end(), std::uint8_t{1});
  return !block.given && !block.in_turns && rows >= kAtOnce && without_gap(block, band);
}

/// True if a mean over frames lacks nothing.
bool CalibrationLines::averaged(const Block& block, const FrameKey& key) const {
  const Band& band = bands_.at(key.encoding);
  if (block.flagged) return enough(block, band);
  if (!moving_.at(key.encoding)) return true;
  const CartesianSpace& space = spaces_.at(key.encoding);
  for (std::size_t row = 0; row < block.hits.size(); ++row) {
    const std::int64_t y = band.first[0] + static_cast<std::int64_t>(row) % band.extent[0],
                       z = band.first[1] + static_cast<std::int64_t>(row) / band.extent[0];
    const bool announced = y >= space.first_y && y <= space.last_y && z >= space.first_z && z <= space.last_z;
    if (announced && block.hits[row] == 0) return false;
  }
  return true;
}

/// Called when calibration readouts of another slice have come. The block stays open, as slices may take turns.
void CalibrationLines::end_run_of_slice(const FrameKey& key, Block& block) {
  if (enough(block, bands_.at(key.encoding))) give(key, block, source_apart(key));
  block.interrupted = true;
}

/// Called when an imaging readout that is no reference has come. The block stays open, as reference lines may follow.
void CalibrationLines::end_run_of_references(const FrameKey& frame) {
  const Rule rule = rules_.at(frame.encoding);
  if (rule != Rule::automatic && rule != Rule::embedded) return;
  const auto open = open_.find(block_of(frame));
  if (open == open_.end() || open->second.owner != frame || !open->second.flagged) return;
  if (std::exchange(open->second.interrupted, true)) return;  // already handled since the last reference
  if (enough(open->second, bands_.at(frame.encoding))) give(open->first, open->second, Calibration::Source::embedded);
}

void CalibrationLines::frame_ends(const Frame& frame) {
  const FrameKey owner = frame_of(frame.reference);
  if (rules_.at(owner.encoding) == Rule::sliding) return slide(owner);
  const auto at = open_.find(open_key(owner));
  if (rules_.at(owner.encoding) == Rule::average) {
    if (at == open_.end()) return;
    if (averaged(at->second, at->first) || ++at->second.frames >= kMostHeld) finish(at->first);
    return;
  }
  if (at == open_.end() || apart(owner) || at->second.owner != owner) return;
  const bool own = at->second.flagged || rules_.at(owner.encoding) == Rule::center ||
                   (rules_.at(owner.encoding) == Rule::automatic && !slice_has_references(at->first));
  if (own) return finish(at->first);
  lent_.insert(at->first);
  open_.erase(at);
}

void CalibrationLines::finish(const FrameKey& key) {
  auto node = open_.extract(key);
  Block& block = node.mapped();
  if (block.given) return;
  give(key, block,
       rules_.at(key.encoding) == Rule::average ? Calibration::Source::sliding
       : apart(key)                             ? source_apart(key)
       : block.flagged                          ? Calibration::Source::embedded
                                                : Calibration::Source::center);
}

void CalibrationLines::warn_of_gaps(const FrameKey& key, const Block& block,
                                    const std::optional<std::array<std::int64_t, 4>>& box) {
  if (!block.flagged || std::exchange(warned_of_gaps_, true)) return;
  const Band& band = bands_.at(key.encoding);
  const auto& matrix = spaces_.at(key.encoding).matrix;
  const auto rows = std::count_if(block.hits.begin(), block.hits.end(), [](std::int32_t hits) { return hits > 0; });
  const auto place = [&](std::int64_t y, std::int64_t z) {
    const std::string plane = matrix[2] > 1 ? fmt::format(" of plane {}", z + band.first[1]) : "";
    return fmt::format("{}{}", y + band.first[0], plane);
  };
  if (!box)
    return scan_->warn(
        fmt::format("reference lines of slice {} without the middle of k-space are left out: {} rows came, but not row "
                    "{}; send all lines of the block, or choose `calibration: none`",
                    key.slice, rows, place(matrix[1] / 2 - band.first[0], matrix[2] / 2 - band.first[1])));
  const auto [y0, z0, y1, z1] = *box;
  scan_->warn(fmt::format(
      "reference lines of slice {} have gaps: {} rows came, of which the {} from row {} to row {} are used; send all "
      "lines of the block",
      key.slice, rows, (y1 - y0 + 1) * (z1 - z0 + 1), place(y0, z0), place(y1, z1)));
}

/// Makes a block from the rows so far. The rows keep their values.
void CalibrationLines::give(const FrameKey& key, Block& block, Calibration::Source source) {
  block.given = true;
  if (!block.rows) return;  // the frame has other counters than its readouts
  const Band& band = bands_.at(key.encoding);
  const auto box = full_box(block.hits, band.extent[0], band.extent[1]);
  if (!box || (block.flagged && !without_gap(block, band))) warn_of_gaps(key, block, box);
  if (!box) return;
  const auto [x0, x1] = block.samples.range();
  if (x0 >= x1) {
    if (block.flagged) scan_->warn("reference lines that have no samples in common are left out");
    return;
  }
  numerics::Context& compute = scan_->compute;
  const auto [y0, z0, y1, z1] = *box;
  const std::int64_t coils = block.rows.shape()[0], nx = block.rows.shape()[2];
  const std::int64_t ny = y1 - y0 + 1, nz = z1 - z0 + 1, width = x1 - x0;
  const auto out = std::make_shared<Calibration>();
  out->id = next_id_++;
  out->source = source;
  out->key = key;
  out->data = cut_block(compute, block.rows.cview().reshaped({coils, band.extent[1], band.extent[0], nx}), {z0, y0, x0},
                        {nz, ny, width});
  out->first = {x0, band.first[0] + y0, band.first[1] + z0};
  out->matrix = spaces_.at(key.encoding).matrix;
  std::vector<float> factors;
  for (std::int64_t z = z0; z <= z1; ++z)
    for (std::int64_t y = y0; y <= y1; ++y)
      factors.push_back(1.0f / static_cast<float>(block.hits[static_cast<std::size_t>(z * band.extent[0] + y)]));
  if (std::any_of(factors.begin(), factors.end(), [](float f) { return f < 1; }))
    numerics::scale_lines(compute, {factors.data(), {nz * ny}}, out->data.view().reshaped({coils, nz * ny, width}));
  whole_[key] = out;
}

std::shared_ptr<const Calibration> CalibrationLines::of(const FrameKey& key) {
  if (!wanted(key.encoding)) return nullptr;
  if (const auto exact = whole_.find(block_of(key)); exact != whole_.end()) return exact->second;
  for (const auto& [other, block] : whole_)  // in rising order
    if (other.encoding == key.encoding && other.slice == key.slice) return block;
  return spaces_.at(key.encoding).accelerated() ? of_other_encoding(key) : nullptr;
}

std::shared_ptr<const Calibration> CalibrationLines::ready(const FrameKey& key) const {
  const auto whole = whole_.find(block_of(key));
  if (whole == whole_.end() || needs_more(whole->first)) return nullptr;
  const auto open = open_.find(open_key(key));
  return open == open_.end() || open->second.given ? whole->second : nullptr;
}

std::shared_ptr<const Calibration> CalibrationLines::of_other_encoding(const FrameKey& key) {
  std::shared_ptr<const Calibration> found;
  for (const auto& [other, block] : whole_) {
    if (other.encoding == key.encoding || other.slice != key.slice || !apart(other)) continue;
    const auto &mine = fov_mm_.at(key.encoding), &theirs = fov_mm_.at(other.encoding);
    const bool same = std::equal(mine.begin(), mine.end(), theirs.begin(),
                                 [](double a, double b) { return std::abs(a - b) <= 1e-3 * std::max(a, b); });
    if (!same) {
      scan_->warn(fmt::format(
          "calibration readouts of slice {} are in encoding space {} with a field of view of {:g} x {:g} x {:g} mm, "
          "the images in {} with {:g} x {:g} x {:g} mm, so they are left out; send them with the images' field of view",
          key.slice, other.encoding, theirs[0], theirs[1], theirs[2], key.encoding, mine[0], mine[1], mine[2]));
      continue;
    }
    const bool exact = other.contrast == key.contrast && other.set == key.set;
    if (!found || exact) found = block;
    if (exact) break;
  }
  return found ? moved(*found, key.encoding) : nullptr;
}

/// Shifts the block to indices of another matrix over the same field of view, and cuts away the part outside.
std::shared_ptr<const Calibration> CalibrationLines::moved(const Calibration& block, std::uint16_t encoding) {
  std::shared_ptr<const Calibration>& known = moved_[{block.id, encoding}];
  if (known) return known;
  const auto& matrix = spaces_.at(encoding).matrix;
  std::array<std::int64_t, 3> first{}, from{}, extent{};  // from, extent: z, y, x
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t at = block.first[a] - block.matrix[a] / 2 + matrix[a] / 2, n = block.data.shape()[3 - a];
    first[a] = std::max<std::int64_t>(at, 0);
    from[2 - a] = first[a] - at;
    extent[2 - a] = std::min(at + n, matrix[a]) - first[a];
    if (extent[2 - a] <= 0) return nullptr;
  }
  auto out = std::make_shared<Calibration>();
  out->id = next_id_++;
  out->source = block.source;
  out->key = block.key;
  out->data = cut_block(scan_->compute, block.data.cview(), from, extent);
  out->first = first;
  out->matrix = matrix;
  return known = out;
}

}  // namespace echotrain
