#include "gadgets/epi/slice_grappa_gadget.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <stdexcept>
#include <utility>

#include "gadgets/epi/epi_readouts.h"
#include "gadgets/numerics/core/layout/rearrange.h"
#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/mri/epi/line_changes.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/shared/epi_lines.h"
#include "gadgets/shared/slice_coils.h"

namespace echotrain {
namespace {

constexpr std::int64_t kMostAtOnce = 32;  // slices of a group

using protocol::AcquisitionHeader;
using protocol::ReadoutKind;

/// The longest run of lines [first, last] without a gap; no value where none came.
std::optional<std::array<std::int64_t, 2>> longest_run(const std::set<std::int64_t>& lines) {
  std::optional<std::array<std::int64_t, 2>> best;
  std::array<std::int64_t, 2> run{};
  for (const std::int64_t line : lines) {
    run = !best || line != run[1] + 1 ? std::array{line, line} : std::array{run[0], line};
    if (!best || run[1] - run[0] > (*best)[1] - (*best)[0]) best = run;
  }
  return best;
}

/// Which lines of a frame were read backwards: of those that did not come, each other one. Empty: none was.
std::vector<bool> directions_of(const std::vector<const AcquisitionHeader*>& heads) {
  std::vector<bool> out;
  bool any = false;
  for (const AcquisitionHeader* head : heads) {
    any = any || (head != nullptr && is_reversed(*head));
    out.push_back(head != nullptr ? is_reversed(*head) : !out.empty() && !out.back());
  }
  return any ? out : std::vector<bool>();
}

/// The lines of a frame, with the readout of each, from the first one on in steps.
struct FrameLines {
  std::int64_t first = 0, step = 1;
  std::vector<const AcquisitionHeader*> heads;  // null: it did not come
  std::vector<std::vector<std::int32_t>> rows;  // for each batch's readouts; -1: a duplicate, or between lines
  std::int64_t count() const { return static_cast<std::int64_t>(heads.size()); }

  /// Widens the frame to as many lines as `lines`, from the line `from` on; missing lines have no heads.
  void widen(std::int64_t from, std::int64_t lines) {
    const auto before = static_cast<std::int32_t>((first - from) / step);
    heads.insert(heads.begin(), static_cast<std::size_t>(before), nullptr);
    heads.resize(static_cast<std::size_t>(lines));
    for (auto& batch : rows)
      for (std::int32_t& row : batch)
        if (row >= 0) row += before;
    first = from;
  }
};

FrameLines lines_of(const std::vector<Readouts>& held, std::int64_t step) {
  FrameLines out;
  out.step = step;
  std::int64_t first = -1, last = -1;
  for (const Readouts& each : held)
    for (const auto& head : each.heads) {
      const std::int64_t line = head.idx.kspace_encode_step_1;
      first = first < 0 ? line : std::min(first, line);
      last = std::max(last, line);
    }
  out.first = std::max<std::int64_t>(first, 0);
  if (first >= 0) out.heads.resize(static_cast<std::size_t>((last - first) / step + 1));
  for (const Readouts& each : held) {
    std::vector<std::int32_t>& rows = out.rows.emplace_back();
    for (const auto& head : each.heads) {
      const std::int64_t away = head.idx.kspace_encode_step_1 - first;
      const AcquisitionHeader** to = away % step == 0 ? &out.heads[static_cast<std::size_t>(away / step)] : nullptr;
      const bool counts = to != nullptr && *to == nullptr;
      rows.push_back(counts ? static_cast<std::int32_t>(away / step) : -1);
      if (counts) *to = &head;
    }
  }
  while (!out.heads.empty() && out.heads.back() == nullptr) out.heads.pop_back();
  return out;
}

/// Some first elements of an array that keeps its memory.
Array<cfloat> part_of(const Array<cfloat>& whole, std::int64_t first, numerics::Shape shape) {
  auto* begin = static_cast<cfloat*>(whole.memory().get()) + first;
  return {std::shared_ptr<void>(whole.memory(), begin), shape};
}

}  // namespace

Parameters<SliceGrappa::Options> SliceGrappa::parameters() {
  return Parameters<Options>()
      .integer("kernel_x", &Options::kernel_x, 1, 15, "extent of the kernels along each line")
      .unit("samples")
      .integer("kernel_y", &Options::kernel_y, 1, 15, "acquired lines that a kernel takes")
      .number("regularization", &Options::regularization, 0, 1,
              "Tikhonov's weight in the fit, as a share of the mean of the matrix's diagonal")
      .flag("split", &Options::split,
            "make small what each other slice leaks by itself, not what the sum of all leaks (split slice-GRAPPA)")
      .integer("fov_shift", &Options::fov_shift, -16, 16,
               "blips move each slice by a field of view over this number from the slice before; 0: as the header's "
               "deltaKz says");
}

void SliceGrappa::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  turned_ = EpiLines::promised(scan);
  EpiLines::want_directions(scan);
  slice_coils_ = SliceCoils::announced(scan);
  for (const auto& encoding : header.encodings) {
    Space& space = spaces_.emplace_back();
    space.step = encoding.acceleration[0];
    const auto& steps = encoding.kspace_encoding_step_1;
    space.centre = steps ? steps->center : static_cast<double>(encoding.encoded.matrix[1] / 2);
    const auto& multiband = encoding.multiband;
    if (!multiband || multiband->factor == 1) continue;
    const std::int64_t slices = encoding.slice ? encoding.slice->maximum + 1 : 1;
    space.factor = multiband->factor;
    if (space.factor > kMostAtOnce)
      throw ClientError(
          fmt::format("slice_grappa: the header's multiband_factor is {}; at most {} slices are told apart",
                      space.factor, kMostAtOnce));
    if (slices % space.factor != 0)
      throw ClientError(fmt::format(
          "slice_grappa: the header's multiband_factor is {}, but its encodingLimits have {} slice(s), which "
          "is no multiple of it; give the limits of the slices that are to be made",
          space.factor, slices));
    space.groups = slices / space.factor;
    space.delta_kz = multiband->delta_kz;
    space.spacing_mm = multiband->spacing_mm;
    if (space.spacing_mm.size() == 1)
      space.spacing_mm.resize(static_cast<std::size_t>(space.factor - 1), space.spacing_mm[0]);
    if (!space.spacing_mm.empty() && static_cast<std::int64_t>(space.spacing_mm.size()) < space.factor - 1)
      throw ClientError(
          fmt::format("slice_grappa: the header's multiband has {} spacings (dZ) for {} slices; give one "
                      "for all, or one from each to the next",
                      space.spacing_mm.size(), space.factor));
    most_ = std::max(most_, space.factor);
  }
  // On a CPU, fits and frames would share the same cores.
  if (most_ > 1)
    fits_ = std::make_unique<SliceFits>(
        *scan_,
        numerics::SliceGrappaOptions{options_.kernel_x, options_.kernel_y, options_.regularization, options_.split},
        /*beside=*/scan.compute.cuda());
}

void SliceGrappa::process(Readouts&& readouts, const Emit<Readouts>& emit) {
  const bool images = readouts.kind == ReadoutKind::imaging && readouts.frame;
  if (most_ == 1 || (!images && readouts.kind != ReadoutKind::calibration)) {
    emit(std::move(readouts));
    return;
  }
  if (!images) {
    learn(readouts);
    std::vector<bool> reversed;
    for (AcquisitionHeader& head : readouts.heads) {
      reversed.push_back(turned_ && is_reversed(head));
      if (turned_) head.flags &= ~kReversedFlag;
    }
    return forward_.take(std::move(readouts), reversed, emit);
  }
  const Space& space = spaces_.at(readouts.frame->key.encoding);
  for (std::int64_t m = 0; m < space.factor; ++m)
    forward_.release(static_cast<std::uint16_t>(readouts.frame->key.slice + m * space.groups), emit);
  if (space.factor == 1) return pass(std::move(readouts), emit);
  const std::uint64_t frame = readouts.frame->id;
  const bool last = readouts.last;
  held_[frame].push_back(std::move(readouts));
  if (!last) return;
  std::vector<Readouts> held = std::move(held_.extract(frame).mapped());
  separate(std::move(held), emit);
}

/// Drops held readouts, whose frames never became whole.
void SliceGrappa::finish(End /*how*/, const Emit<Readouts>& emit) {
  forward_.release({}, emit);
  held_.clear();
}

/// Passes readouts on. Frames keep separate numbers, though one becomes several.
void SliceGrappa::pass(Readouts&& readouts, const Emit<Readouts>& emit) const {
  for (AcquisitionHeader& head : readouts.heads)
    if (turned_) head.flags &= ~kReversedFlag;
  Frame frame = *readouts.frame;
  frame.id *= static_cast<std::uint64_t>(most_);
  readouts.frame = std::make_shared<const Frame>(std::move(frame));
  emit(std::move(readouts));
}

SliceGrappa::Owner SliceGrappa::slice_of(const Owner& group, std::int64_t m) const {
  return {group.first, static_cast<std::uint16_t>(group.second + m * spaces_[group.first].groups)};
}

bool SliceGrappa::has_kernels(const Owner& slice) const {
  const std::int64_t groups = spaces_[slice.first].groups;
  return groups_.contains({slice.first, static_cast<std::uint16_t>(slice.second % groups)});
}

/// Keeps a copy of reference lines, because gadgets after this one may change theirs.
void SliceGrappa::learn(const Readouts& readouts) {
  const auto& heads = readouts.heads;
  const numerics::Shape& shape = readouts.data.shape();
  for (std::size_t begin = 0, end = 0; begin < heads.size(); begin = end) {
    const Owner owner{heads[begin].encoding_space_ref, heads[begin].idx.slice};
    Reference reference;
    for (; end < heads.size() && Owner{heads[end].encoding_space_ref, heads[end].idx.slice} == owner; ++end) {
      reference.lines.push_back(heads[end].idx.kspace_encode_step_1);
      reference.reversed.push_back(turned_ && is_reversed(heads[end]));
    }
    const Space& space = spaces_.at(owner.first);
    if (space.factor == 1 || has_kernels(owner)) continue;
    if (owner.second >= space.factor * space.groups) {
      scan_->warn(fmt::format("slice_grappa: reference lines of slice {} are not used: the header has {} slices",
                              owner.second, space.factor * space.groups));
      continue;
    }
    const auto count = static_cast<std::int64_t>(end - begin);
    reference.data = scan_->compute.allocate_host<cfloat>({count, shape[1], shape[2]});
    scan_->compute.copy<cfloat>(
        readouts.data.cview().part(static_cast<std::int64_t>(begin) * shape[1] * shape[2], {count, shape[1], shape[2]}),
        reference.data.view());
    Slice& slice = slices_[owner];
    if (!slice.head) slice.head = heads[begin];
    const Owner group{owner.first, static_cast<std::uint16_t>(owner.second % space.groups)};
    if (std::find(order_.begin(), order_.end(), group) == order_.end()) order_.push_back(group);
    slice.references.push_back(std::move(reference));
    fits_->drop(group);
  }
}

/// Lines first to last of a slice's references [coil, y, x], of one direction, or of the other where they lack it; of
/// lines that came several times, the last one.
HostArray<cfloat> SliceGrappa::block_of(const Slice& slice, std::int64_t first, std::int64_t last,
                                        bool backwards) const {
  const numerics::Shape& shape = slice.references.front().data.shape();
  const std::int64_t coils = shape[1], samples = shape[2], count = last - first + 1;
  HostArray<cfloat> block = scan_->compute.allocate_host<cfloat>({coils, count, samples});
  for (const bool way : {!backwards, backwards})
    for (const Reference& reference : slice.references)
      for (std::size_t i = 0; i < reference.lines.size(); ++i) {
        const std::int64_t y = reference.lines[i] - first;
        for (std::int64_t c = 0; c < coils && y >= 0 && y < count && reference.reversed[i] == way; ++c)
          std::copy_n(reference.data.data() + (static_cast<std::int64_t>(i) * coils + c) * samples, samples,
                      block.data() + (c * count + y) * samples);
      }
  return block;
}

/// The turns of each slice's phase from acquired line to acquired line.
std::vector<double> SliceGrappa::turns_of(const Space& space, const Owner& owner) const {
  std::vector<double> turns;
  double z = 0;
  for (std::int64_t m = 0; m < space.factor; ++m) {
    if (options_.fov_shift != 0) {
      turns.push_back(static_cast<double>(m) / static_cast<double>(options_.fov_shift));
      continue;
    }
    if (space.spacing_mm.empty()) {
      const auto &here = *slices_.at(slice_of(owner, m)).head, &first = *slices_.at(owner).head;
      z = 0;
      for (int a = 0; a < 3; ++a)
        z += static_cast<double>(here.position[a] - first.position[a]) * static_cast<double>(first.slice_dir[a]);
    } else if (m > 0) {
      z += space.spacing_mm[static_cast<std::size_t>(m - 1)];
    }
    turns.push_back(space.delta_kz * z);
  }
  return turns;
}

/// The kernels of a group, made for its first frame's lines.
SliceGrappa::Group& SliceGrappa::group_for(const Owner& owner, std::int64_t first, const Heads& heads,
                                           std::int64_t coils, std::int64_t samples) {
  const auto [at, is_new] = groups_.try_emplace(owner);
  Group& group = at->second;
  const auto lines = static_cast<std::int64_t>(heads.size());
  if (is_new) {
    group.first = first;
    group.lines = lines;
    group.samples = samples;
    if (turned_) group.reversed = directions_of(heads);
    try {
      fit(group, owner, coils);
    } catch (const std::invalid_argument& error) {
      group.failed = true;
      scan_->warn(
          fmt::format("slice_grappa: slices of group {} are not told apart, and lie on top of each other in its "
                      "images: {}; send 24 single-band reference lines or more (flag 20) of each slice before",
                      owner.second, error.what()));
    }
    for (std::int64_t m = 0; m < spaces_[owner.first].factor; ++m)
      if (const auto slice = slices_.find(slice_of(owner, m)); slice != slices_.end()) slice->second.references.clear();
  }
  // Outer lines of a later frame may be missing.
  const std::int64_t step = spaces_[owner.first].step, before = first - group.first;
  const bool within = before >= 0 && before % step == 0 && before / step + lines <= group.lines;
  if (!group.failed && (!within || group.samples != samples || group.kernels.coils != coils))
    throw ClientError(fmt::format(
        "slice_grappa: a frame of group {} has {} lines of {} coils and {} samples, but the first one had {} of {} and "
        "{}; all repetitions of simultaneous slices are to be alike",
        owner.second, lines, coils, samples, group.lines, group.kernels.coils, group.samples));
  for (std::int64_t j = 0; j < lines && !group.reversed.empty(); ++j) {
    const AcquisitionHeader* head = heads[static_cast<std::size_t>(j)];
    if (head != nullptr && is_reversed(*head) != group.reversed[static_cast<std::size_t>(before / step + j)])
      throw ClientError(
          fmt::format("slice_grappa: line {} of a frame of group {} was read the other way than in the first one; with "
                      "dual_polarity, all repetitions of simultaneous slices are to be alike",
                      +head->idx.kspace_encode_step_1, owner.second));
  }
  return group;
}

/// The input for the kernels of a group, for frames as those of `like`. Throws std::invalid_argument where reference
/// lines are missing.
SliceGroup SliceGrappa::references_of(const Owner& owner, const Group& like, std::int64_t coils) const {
  const Space& space = spaces_[owner.first];
  const bool both = !like.reversed.empty();
  std::int64_t first = 0, last = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t m = 0; m < space.factor; ++m) {
    const Owner which = slice_of(owner, m);
    const auto found = slices_.find(which);
    if (found == slices_.end() || found->second.references.empty())
      throw std::invalid_argument(fmt::format("slice {} has no single-band reference lines", which.second));
    std::array<std::set<std::int64_t>, 2> ways;
    for (const Reference& reference : found->second.references) {
      for (std::size_t i = 0; i < reference.lines.size(); ++i)
        ways[both && reference.reversed[i] ? 1 : 0].insert(reference.lines[i]);
      if (reference.data.shape()[1] != coils || reference.data.shape()[2] != like.samples)
        throw ClientError(
            fmt::format("slice_grappa: reference lines of slice {} have {} coils and {} samples, but lines "
                        "of images have {} and {}; put ramp_regrid and coil_compression: {{per: scan}} "
                        "before this gadget",
                        which.second, reference.data.shape()[1], reference.data.shape()[2], coils, like.samples));
    }
    if (both) std::erase_if(ways[0], [&](std::int64_t line) { return !ways[1].contains(line); });
    const auto run = longest_run(ways[0]);
    if (!run)
      throw std::invalid_argument(fmt::format("no reference line of slice {} came with both directions", which.second));
    first = std::max(first, (*run)[0]);
    last = std::min(last, (*run)[1]);
  }
  if (last < first) throw std::invalid_argument("reference lines of these slices have no lines in common");
  SliceGroup out;
  out.turns = turns_of(space, owner);
  out.step = space.step;
  out.lines = like.lines;
  out.reversed = like.reversed;
  for (std::int64_t m = 0; m < space.factor; ++m) {
    const Slice& slice = slices_.at(slice_of(owner, m));
    out.blocks.push_back(block_of(slice, first, last, false));
    if (both) out.backwards.push_back(block_of(slice, first, last, true));
  }
  return out;
}

void SliceGrappa::fit(Group& group, const Owner& owner, std::int64_t coils) {
  numerics::Context& compute = scan_->compute;
  compute.synchronize();  // references are copied
  group.turns = turns_of(spaces_[owner.first], owner);
  try {
    fit_kernels(group, owner, coils);
  } catch (const std::invalid_argument& error) {
    if (group.reversed.empty()) throw;
    group.reversed.clear();
    fit_kernels(group, owner, coils);
    scan_->warn(fmt::format(
        "slice_grappa: slices of group {} are told apart without dual_polarity: {}; their lines are corrected by the "
        "navigators' phase alone. Send each reference line (flag 20) of each slice twice, once with flag 22 and once "
        "without",
        owner.second, error.what()));
  }
  if (fits_->may_start()) fit_others(group, owner, coils);
  const numerics::Shape extents{1, group.lines, group.samples};
  group.hybrid =
      numerics::hybrid_kernels(compute, group.kernels, {.encoded = extents, .padded = extents, .image = extents});
  group.rows = numerics::plan_slices(compute, group.kernels, group.hybrid, spaces_[owner.first].factor);
}

void SliceGrappa::fit_kernels(Group& group, const Owner& owner, std::int64_t coils) {
  group.kernels = fits_->has(owner, group.lines, group.reversed, coils, group.samples)
                      ? fits_->take(owner)
                      : fits_->make(references_of(owner, group, coils));
}

/// Begins the fits of the groups that follow this one: their frames are expected in the order of their references.
void SliceGrappa::fit_others(const Group& group, const Owner& owner, std::int64_t coils) {
  const auto here = std::find(order_.begin(), order_.end(), owner);
  std::rotate(order_.begin(), here, order_.end());
  std::vector<std::pair<Owner, SliceGroup>> others;
  for (const Owner& other : order_) {
    if (other.first != owner.first || other == owner) continue;
    try {
      others.emplace_back(other, references_of(other, group, coils));
    } catch (const std::invalid_argument&) {
      // The error is reported when a frame of the group comes.
    }
  }
  fits_->start(std::move(others));
}

void SliceGrappa::separate(std::vector<Readouts> held, const Emit<Readouts>& emit) {
  const auto any = std::find_if(held.begin(), held.end(), [](const Readouts& each) { return !each.heads.empty(); });
  if (any == held.end()) return pass(std::move(held.back()), emit);
  const Frame& frame = *held.back().frame;
  const Owner owner{frame.key.encoding, frame.key.slice};
  const Space& space = spaces_[owner.first];
  if (owner.second >= space.groups)
    throw ClientError(
        fmt::format("slice_grappa: a readout for images names slice {}, but {} slices, {} at once, are {} "
                    "groups: lines of simultaneous slices name their group",
                    owner.second, space.factor * space.groups, space.factor, space.groups));
  if (std::any_of(slice_coils_.begin(), slice_coils_.end(), [](const auto& made) { return *made; }))
    throw ClientError(
        "slice_grappa: a gadget before has given each slice virtual coils of its own, and simultaneous slices have to "
        "share theirs; use coil_compression: {per: scan}, or put it after slice_grappa");
  const std::int64_t coils = any->data.shape()[1], samples = any->data.shape()[2];
  FrameLines lines = lines_of(held, space.step);
  Group& group = group_for(owner, lines.first, lines.heads, coils, samples);
  if (group.failed) {
    for (Readouts& each : held) pass(std::move(each), emit);
    return;
  }
  lines.widen(group.first, group.lines);
  const std::int64_t count = lines.count();
  numerics::Context& compute = scan_->compute;
  Array<cfloat> kspace = compute.zeros<cfloat>({coils, count, samples});
  for (std::size_t h = 0; h < held.size(); ++h)
    if (!held[h].heads.empty())
      numerics::add_lines(compute, held[h].data.cview(),
                          {lines.rows[h].data(), {static_cast<std::int64_t>(lines.rows[h].size())}}, {0, samples, 0},
                          kspace.view());
  Array<cfloat> half = compute.allocate<cfloat>({coils, count, samples});
  numerics::centered_fft(compute, kspace.cview(), half.view(), {samples}, 1, numerics::Direction::inverse,
                         1.0f / static_cast<float>(samples));
  const std::int64_t all = space.factor * count;
  Array<cfloat> apart = compute.allocate<cfloat>({coils, all, samples});
  numerics::correct_lines(compute, group.hybrid, group.rows, half.cview(), apart.view());
  Array<cfloat> rows = compute.allocate<cfloat>({all, coils, samples});
  numerics::rearrange(compute, apart.cview().reshaped({1, coils, all, samples}), {{1, 0, 2}, {0, 0, 0}, {1, 1, 1}},
                      rows.view().reshaped({1, all, coils, samples}));
  std::vector<numerics::LineChange> changes;
  for (std::int64_t m = 0; m < space.factor; ++m)
    for (std::int64_t j = 0; j < count; ++j) {
      const double line =
          (static_cast<double>(lines.first + j * lines.step) - space.centre) / static_cast<double>(lines.step);
      const double turns = std::remainder(group.turns[static_cast<std::size_t>(m)] * line, 1.0);
      changes.push_back({0, 0, cfloat(std::polar(1.0, -2 * std::numbers::pi * turns))});
    }
  if (!ones_ || ones_.shape()[2] != samples) {
    const std::vector<cfloat> ones(static_cast<std::size_t>(samples), cfloat{1});
    ones_ = compute.upload<cfloat>({ones.data(), {1, 1, samples}});
  }
  Array<cfloat> turned = compute.allocate<cfloat>({all, coils, samples});
  numerics::change_lines(compute, {changes.data(), {all}}, ones_.cview(), rows.cview(), turned.view());
  numerics::centered_fft(compute, turned.cview(), rows.view(), {samples}, 1, numerics::Direction::forward, 1.0f);

  for (std::int64_t m = 0; m < space.factor; ++m) {
    const Owner which = slice_of(owner, m);
    const AcquisitionHeader& place = *slices_.at(which).head;
    const auto move = [&](AcquisitionHeader& head) {
      head.idx.slice = which.second;
      if (turned_) head.flags &= ~kReversedFlag;
      for (int a = 0; a < 3; ++a) head.position[a] = place.position[a];
    };
    Frame made = frame;
    made.id = frame.id * static_cast<std::uint64_t>(most_) + static_cast<std::uint64_t>(m);
    made.key.slice = which.second;
    move(made.reference);
    made.notes["multiband"] = std::to_string(space.factor);
    if (!group.reversed.empty()) made.notes["epi_dual_polarity"] = fmt::format("{:.5f}", group.kernels.residual);
    made.notes["slice_grappa_residual"] = fmt::format("{:.4f}", group.kernels.residual);
    const auto shared = std::make_shared<const Frame>(std::move(made));
    bool first = true;
    for (std::int64_t begin = 0, end = 0; begin < count; begin = end) {
      Readouts out;
      for (; end < count && (lines.heads[static_cast<std::size_t>(end)] != nullptr) ==
                                (lines.heads[static_cast<std::size_t>(begin)] != nullptr);
           ++end)
        if (const AcquisitionHeader* head = lines.heads[static_cast<std::size_t>(end)])
          move(out.heads.emplace_back(*head));
      if (out.heads.empty()) continue;
      out.frame = shared;
      out.first = std::exchange(first, false);
      out.last =
          std::all_of(lines.heads.begin() + end, lines.heads.end(), [](const auto* head) { return head == nullptr; });
      out.data = part_of(rows, (m * count + begin) * coils * samples, {end - begin, coils, samples});
      emit(std::move(out));
    }
  }
}

}  // namespace echotrain
