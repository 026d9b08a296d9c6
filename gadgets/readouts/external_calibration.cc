#include "gadgets/readouts/external_calibration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "gadgets/numerics/core/team/team.h"
#include "gadgets/numerics/mri/coils/coil.h"
#include "gadgets/shared/epi_lines.h"
#include "gadgets/shared/place.h"
#include "gadgets/shared/prescan/receive_prescan.h"
#include "gadgets/shared/program/scan_environment.h"
#include "gadgets/shared/store/coil_labels.h"
#include "protocol/data/scanner_device.h"

namespace echotrain {
namespace {

using protocol::AcquisitionHeader;
using protocol::ReadoutKind;

constexpr std::uint64_t kReference = 1ull << 19, kReferenceAndImaging = 1ull << 20, kReversed = 1ull << 21;

bool is_accelerated(const protocol::Encoding& encoding) {
  const auto& matrix = encoding.encoded.matrix;
  return (encoding.acceleration[0] > 1 && matrix[1] > 1) || (encoding.acceleration[1] > 1 && matrix[2] > 1);
}

bool same_fov(const StoredSpace& a, const StoredSpace& b) {
  return std::equal(a.fov_mm.begin(), a.fov_mm.end(), b.fov_mm.begin(),
                    [](double left, double right) { return std::abs(left - right) <= 1e-3 * std::max(left, right); });
}

/// Copies readouts [begin, end) of a batch, with their coils in another order: [readout, coil, sample].
std::vector<cfloat> reordered(const StoredLines& lines, const std::vector<std::size_t>& coils, std::size_t begin,
                              std::size_t end) {
  const std::size_t samples = lines.heads.front().number_of_samples;
  const std::size_t theirs = lines.data.size() / (lines.heads.size() * samples);
  std::vector<cfloat> out;
  out.reserve((end - begin) * coils.size() * samples);
  for (std::size_t i = begin; i < end; ++i)
    for (const std::size_t coil : coils) {
      const auto first = lines.data.begin() + static_cast<std::ptrdiff_t>((i * theirs + coil) * samples);
      out.insert(out.end(), first, first + static_cast<std::ptrdiff_t>(samples));
    }
  return out;
}

}  // namespace

Parameters<ExternalCalibration::Options> ExternalCalibration::parameters() {
  return Parameters<Options>()
      .flag("keep", &Options::keep, "keep this scan's reference lines for later scans that name it")
      .flag("require_calibration", &Options::require_calibration,
            "refuse scans whose calibration is external, but not known");
}

void ExternalCalibration::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  turned_ = EpiLines::promised(scan);
  whitened_ = ReceivePrescan::of(scan).whitens;
  const auto& port = scan.compute.cache<ScanEnvironment>();
  measurement_ = {port.owner, protocol::device_of(header.xml), header.measurement_id, port.client};
  labels_ = header.coil_labels;
  dependencies_ = calibration_dependencies(header);
  for (const auto& encoding : header.encodings) {
    Space& space = spaces_.emplace_back();
    space.cartesian =
        encoding.trajectory == protocol::Trajectory::cartesian || encoding.trajectory == protocol::Trajectory::epi;
    if (!space.cartesian) continue;
    for (std::size_t a = 0; a < 3; ++a) space.matrix[a] = encoding.encoded.matrix[a];
    space.fov_mm = encoding.encoded.fov_mm;
    space.offset = {row_offset(encoding.kspace_encoding_step_1, space.matrix[1], "kspace_encoding_step_1", scan),
                    row_offset(encoding.kspace_encoding_step_2, space.matrix[2], "kspace_encoding_step_2", scan)};
    if (!is_accelerated(encoding)) continue;
    if (encoding.calibration_mode == "external") space.mode = Mode::external;
    if (encoding.calibration_mode == "separate") space.mode = Mode::separate;
  }
}

void ExternalCalibration::process(Readouts&& readouts, const Emit<Readouts>& emit) {
  const bool imaging = readouts.kind == ReadoutKind::imaging;
  if ((imaging || readouts.kind == ReadoutKind::calibration) && readouts.data && !readouts.heads.empty()) {
    has_own_lines_ = has_own_lines_ || !imaging;
    keep(readouts);
    const Mode mode = spaces_.at(readouts.heads.front().encoding_space_ref).mode;
    if (imaging && mode != Mode::own) {
      if (!std::exchange(looked_up_, true)) look_up(mode, static_cast<int>(readouts.data.shape()[1]), emit);
      check_place(readouts.heads.front());
    }
  }
  if (used_unix_s_ > 0 && imaging && readouts.last)
    readouts.frame =
        with_notes(*readouts.frame,
                   {{"calibration_from", "store"},
                    {"calibration_age_s", std::to_string(std::max<std::int64_t>(0, unix_seconds() - used_unix_s_))}});
  emit(std::move(readouts));
}

void ExternalCalibration::finish(End how, const Emit<Readouts>& /*emit*/) {
  if (how != End::complete) return;
  if (too_many_)
    return scan_->info(
        fmt::format("reference lines are not kept for later scans: they are more than scan_store_mib allows ({} MiB)",
                    store().most_bytes() >> 20));
  if (kept_.empty()) return;
  if (!labels_.empty() && labels_.size() != static_cast<std::size_t>(kept_coils_))
    return scan_->info(
        fmt::format("reference lines are not kept for later scans: {} labels of the header do not name {} coils",
                    labels_.size(), kept_coils_));
  scan_->compute.synchronize();  // copies to the host may be under way
  CalibrationRecord kept = record();
  const std::int64_t count = kept.count();
  const auto added = store().add(measurement_, std::move(kept));
  if (added != ScanStore::Added::no)
    scan_->info(fmt::format("{} reference lines of {} coils are kept for scans that name measurement {}{}", count,
                            kept_coils_, end_of_id(measurement_.measurement_id),
                            added == ScanStore::Added::replaced ? ", in place of what an earlier scan left" : ""));
  else
    scan_->info("reference lines are not kept for later scans: scan_store_mib has no room for them");
}

/// True if lines of other scans are available. Ranks have separate stores, and could reconstruct differently.
bool ExternalCalibration::has_store() const { return scan_->team == nullptr || scan_->team->in_one_process(); }

CalibrationStore& ExternalCalibration::store() const { return scan_->compute.resources().get<CalibrationStore>(); }

/// True if this readout is a reference line to keep.
bool ExternalCalibration::is_wanted(const AcquisitionHeader& head) {
  if ((head.flags & (kReference | kReferenceAndImaging)) == 0 || !spaces_.at(head.encoding_space_ref).cartesian)
    return false;
  if (turned_ && (head.flags & kReversed) != 0) return false;
  const Owner owner{head.encoding_space_ref, head.idx.slice, head.idx.contrast, head.idx.set};
  const std::pair<std::uint16_t, std::uint16_t> counters{head.idx.phase, head.idx.repetition};
  return owners_.try_emplace(owner, counters).first->second == counters;
}

void ExternalCalibration::keep(const Readouts& readouts) {
  if (!options_.keep || measurement_.measurement_id.empty() || too_many_ || !has_store() || store().hours() == 0)
    return;
  const auto& shape = readouts.data.shape();  // [readout, coil, sample]
  for (std::size_t begin = 0, end = 0; begin < readouts.heads.size(); begin = end) {
    end = begin + 1;
    if (!is_wanted(readouts.heads[begin])) continue;
    if (kept_coils_ == 0) kept_coils_ = static_cast<int>(shape[1]);
    if (shape[1] != kept_coils_)
      return scan_->warn(
          fmt::format("reference lines of {} coils are not kept for later scans: those before had {} coils", shape[1],
                      kept_coils_));
    while (end < readouts.heads.size() && is_wanted(readouts.heads[end])) ++end;
    const auto count = static_cast<std::int64_t>(end - begin);
    kept_bytes_ += static_cast<std::uint64_t>(count) *
                   (sizeof(AcquisitionHeader) + static_cast<std::uint64_t>(shape[1] * shape[2]) * sizeof(cfloat));
    if (kept_bytes_ > store().most_bytes()) {
      too_many_ = true;
      kept_.clear();
      return;
    }
    Kept& kept = kept_.emplace_back();
    kept.heads.assign(readouts.heads.begin() + static_cast<std::ptrdiff_t>(begin),
                      readouts.heads.begin() + static_cast<std::ptrdiff_t>(end));
    const std::vector<cfloat>& matrix = whitening(shape[1]);
    const std::size_t before = kept_.size() - 1;
    kept.whitening = before > 0 && *kept_[before - 1].whitening == matrix
                         ? kept_[before - 1].whitening
                         : std::make_shared<const std::vector<cfloat>>(matrix);
    kept.data = scan_->compute.allocate_host<cfloat>({count, shape[1], shape[2]});
    scan_->compute.copy<cfloat>(
        readouts.data.cview().part(static_cast<std::int64_t>(begin) * shape[1] * shape[2], kept.data.shape()),
        kept.data.view());
  }
}

/// The matrix by which readouts of so many coils were whitened last; empty: they were not.
const std::vector<cfloat>& ExternalCalibration::whitening(std::int64_t coils) const {
  static const std::vector<cfloat> none;
  const ReceivePrescan& port = ReceivePrescan::of(*scan_);
  return whitened_ && port.coils == coils ? port.whitening : none;
}

CalibrationRecord ExternalCalibration::record() const {
  CalibrationRecord out;
  out.coils = kept_coils_;
  out.labels = labels_;
  out.spaces.assign(spaces_.begin(), spaces_.end());
  out.made_unix_s = unix_seconds();
  for (const Kept& kept : kept_) {
    const bool alike =
        !out.lines.empty() && out.lines.back().heads.front().number_of_samples == kept.heads.front().number_of_samples;
    StoredLines& lines = alike ? out.lines.back() : out.lines.emplace_back();
    lines.heads.insert(lines.heads.end(), kept.heads.begin(), kept.heads.end());
    const auto from = static_cast<std::int64_t>(lines.data.size());
    lines.data.insert(lines.data.end(), kept.data.data(), kept.data.data() + kept.data.size());
    if (kept.whitening->empty()) continue;
    const std::vector<cfloat> back = numerics::inverse_whitening(*kept.whitening, kept_coils_);
    numerics::apply_coil_matrix(scan_->compute, {back.data(), {kept_coils_, kept_coils_}},
                                numerics::HostView<cfloat>(lines.data.data() + from, kept.data.shape()));
  }
  return out;
}

/// Finds the lines of the scan that the header names, before the first readout for an image.
void ExternalCalibration::look_up(Mode mode, int coils, const Emit<Readouts>& emit) {
  if (has_own_lines_ || (mode == Mode::separate && dependencies_.empty())) return;
  if (dependencies_.empty())
    return go_without("the header says that calibration is external, but names no measurement that has it");
  if (!has_store())
    return go_without(
        "reference lines of other scans are not used by several ranks, each of which has a store of its own");
  std::string why_not;
  for (const std::string& id : dependencies_) {
    why_not = fmt::format("the measurement {} that the header names for calibration ", end_of_id(id));
    const auto record = store().find({measurement_.owner, measurement_.device, id});
    if (!record) {
      why_not += fmt::format("is not known here (reference lines are kept for {} h, in memory)", store().hours());
      continue;
    }
    std::string reason;
    std::vector<Readouts> batches = lines_for(*record, coils, reason);
    if (batches.empty()) {
      why_not += reason;
      continue;
    }
    used_id_ = id;
    used_unix_s_ = record->made_unix_s;
    scan_->info(fmt::format("reference lines are those of another scan, {} ({} lines, {} s old)", end_of_id(id),
                            record->count(), std::max<std::int64_t>(0, unix_seconds() - used_unix_s_)));
    for (Readouts& batch : batches) {
      scan_->compute.check_stop();
      emit(std::move(batch));
    }
    return;
  }
  go_without(why_not);
}

void ExternalCalibration::go_without(const std::string& why) {
  if (options_.require_calibration) throw ClientError("external_calibration: require_calibration: true, but " + why);
  scan_->warn(why + ": the scan is reconstructed without reference lines");
}

/// The encoding space that lines of `theirs` fit.
std::optional<std::size_t> ExternalCalibration::space_for(const StoredSpace& theirs) const {
  for (std::size_t e = 0; e < spaces_.size(); ++e)
    if (spaces_[e].mode != Mode::own && same_fov(spaces_[e], theirs)) return e;
  return std::nullopt;
}

/// The head of such a line in this scan, if it has a place there.
std::optional<AcquisitionHeader> ExternalCalibration::moved(AcquisitionHeader head, const StoredSpace& from) const {
  const auto to = space_for(from);
  if (!to) return std::nullopt;
  const Space& space = spaces_[*to];
  const auto step = [&](std::int64_t theirs, std::size_t axis) -> std::int64_t {
    const std::int64_t row = theirs + from.offset[axis] - from.matrix[axis + 1] / 2 + space.matrix[axis + 1] / 2;
    if (row < 0 || row >= space.matrix[axis + 1]) return -1;
    return std::min<std::int64_t>(row - space.offset[axis], std::numeric_limits<std::uint16_t>::max());
  };
  const std::int64_t y = step(head.idx.kspace_encode_step_1, 0), z = step(head.idx.kspace_encode_step_2, 1);
  if (y < 0 || z < 0) return std::nullopt;
  head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
  head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(z);
  head.encoding_space_ref = static_cast<std::uint16_t>(*to);
  head.flags = kReference;
  head.idx.phase = head.idx.repetition = 0;
  if (space.matrix[0] == from.matrix[0]) return head;
  // A whole line has the centre of its own matrix; others state their centre sample. Samples beyond this matrix are
  // cut.
  const std::int64_t pre = head.discard_pre, post = head.discard_post, all = head.number_of_samples;
  const std::int64_t center = all - pre - post == from.matrix[0] ? pre + from.matrix[0] / 2 : head.center_sample;
  const std::int64_t before = center - pre - space.matrix[0] / 2,
                     behind = all - post - center - (space.matrix[0] - space.matrix[0] / 2);
  if (pre + std::max<std::int64_t>(before, 0) >= all - post - std::max<std::int64_t>(behind, 0)) return std::nullopt;
  head.center_sample = static_cast<std::uint16_t>(center);
  head.discard_pre = static_cast<std::uint16_t>(pre + std::max<std::int64_t>(before, 0));
  head.discard_post = static_cast<std::uint16_t>(post + std::max<std::int64_t>(behind, 0));
  return head;
}

/// The record's lines as calibration readouts of this scan; if there are none, `why_not` completes the sentence "the
/// measurement X that the header names for calibration ".
std::vector<Readouts> ExternalCalibration::lines_for(const CalibrationRecord& record, int coils, std::string& why_not) {
  const auto theirs = matching_coils({coils, labels_}, {record.coils, record.labels}, why_not);
  if (!theirs) return {};
  std::vector<Readouts> out;
  for (const StoredLines& lines : record.lines) {
    for (std::size_t begin = 0, end = 0; begin < lines.heads.size(); begin = end) {
      end = begin + 1;
      const auto head_of = [&](std::size_t i) {
        return moved(lines.heads[i], record.spaces[lines.heads[i].encoding_space_ref]);
      };
      auto head = head_of(begin);
      if (!head) continue;
      Readouts& batch = out.emplace_back();
      batch.kind = ReadoutKind::calibration;
      for (;;) {
        head->active_channels = static_cast<std::uint16_t>(coils);
        batch.heads.push_back(*head);
        places_.try_emplace(head->idx.slice, *head);
        if (end == lines.heads.size() || !(head = head_of(end))) break;
        if (head->encoding_space_ref != batch.heads.back().encoding_space_ref) break;
        ++end;
      }
      std::vector<cfloat> data = reordered(lines, *theirs, begin, end);
      const numerics::Shape shape{static_cast<std::int64_t>(end - begin), coils, lines.heads.front().number_of_samples};
      if (const auto& matrix = whitening(coils); !matrix.empty())
        numerics::apply_coil_matrix(scan_->compute, {matrix.data(), {coils, coils}},
                                    numerics::HostView<cfloat>(data.data(), shape));
      batch.data = scan_->compute.upload<cfloat>({data.data(), shape});
    }
  }
  if (out.empty()) {
    const StoredSpace& space = record.spaces[record.lines.front().heads.front().encoding_space_ref];
    why_not = space_for(space) ? "has no lines within this scan's matrix"
                               : fmt::format("has another field of view: {:g} x {:g} x {:g} mm", space.fov_mm[0],
                                             space.fov_mm[1], space.fov_mm[2]);
  }
  return out;
}

/// Refuses images of a slice that is not where its reference lines were acquired.
void ExternalCalibration::check_place(const AcquisitionHeader& head) {
  const auto place = places_.find(head.idx.slice);
  if (place == places_.end()) return;
  const std::vector<std::string> differences = differences_of_place(head, place->second);
  if (!differences.empty())
    throw ClientError(fmt::format(
        "external_calibration: slice {} is not where the reference lines of measurement {} were acquired, which the "
        "header names for it: {}. Send reference lines of this place, or a header that names none",
        head.idx.slice, end_of_id(used_id_), fmt::join(differences, ", ")));
  places_.erase(place);
}

}  // namespace echotrain
