#include "gadgets/readouts/coil_compression.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gadgets/shared/measurement.h"
#include "gadgets/shared/slice_coils.h"

namespace echotrain {
namespace {

using protocol::ReadoutKind;

constexpr std::int64_t kFewestCalibrationReadouts = 8;
constexpr std::uint64_t kCalibrationAndImaging = 1ull << 20;

}  // namespace

Parameters<CoilCompression::Options> CoilCompression::parameters() {
  return Parameters<Options>()
      .choice("method", &Options::method, {"pca", "geometric"},
              "pca: the same virtual coils everywhere; geometric: others at each position along the readout, which "
              "needs fewer of them (Cartesian scans with full readouts)")
      .integer("channels", &Options::channels, 0, 1024,
               "virtual coils; 0: as few as hold `energy`; geometric: at most 128")
      .number("energy", &Options::energy, 0.5, 1, "share of the signal's energy that is kept, where channels is 0")
      .choice("from", &Options::from, {"auto", "calibration", "center"},
              "where the virtual coils are found: in calibration lines, or in the middle of the first frame; auto: in "
              "calibration lines where they come first")
      .integer("lines", &Options::lines, 4, 64, "extent of the middle of k-space that is used [samples and rows]")
      .choice("per", &Options::per, {"slice", "scan"}, "what gets virtual coils of its own; their number is the same");
}

void CoilCompression::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  if (options_.per == "slice") by_slice_ = SliceCoils::announce(scan);
  for (const auto& encoding : header.encodings) {
    using protocol::Trajectory;
    Space space;
    space.cartesian = encoding.trajectory == Trajectory::cartesian || encoding.trajectory == Trajectory::epi;
    space.whole_readouts = !space.cartesian && encoding.trajectory != Trajectory::radial &&
                           encoding.trajectory != Trajectory::golden_angle;
    if (geometric() && !space.cartesian)
      throw ClientError(
          fmt::format("coil_compression: method geometric takes Cartesian readouts, but the header's trajectory is "
                      "'{}'; use method: pca",
                      protocol::to_string(encoding.trajectory)));
    const auto& matrix = encoding.encoded.matrix;
    space.columns = matrix[0];
    if (space.cartesian) {
      const auto middle = [&](std::int64_t n, const auto& limit, const char* what, std::int64_t& first,
                              std::int64_t& last) {
        const std::int64_t count = std::min(n, options_.lines), step = row_offset(limit, n, what, scan);
        first = n / 2 - count / 2 - step;
        last = first + count - 1;
      };
      middle(matrix[1], encoding.kspace_encoding_step_1, "kspace_encoding_step_1", space.first_1, space.last_1);
      middle(matrix[2], encoding.kspace_encoding_step_2, "kspace_encoding_step_2", space.first_2, space.last_2);
    }
    spaces_.push_back(space);
  }
}

void CoilCompression::process(Readouts&& readouts, const Emit<Readouts>& emit) {
  const bool compresses = readouts.kind == ReadoutKind::imaging || readouts.kind == ReadoutKind::calibration;
  if (!compresses || (readouts.kind == ReadoutKind::calibration && !readouts.data)) {
    emit(std::move(readouts));
    return;
  }
  if (!readouts.heads.empty()) {
    const std::int64_t coils = readouts.data.shape()[1];
    if (coils_ == 0) coils_ = coils;
    if (coils != coils_)
      throw ClientError(
          fmt::format("coil_compression: readouts have {} coils, but those before had {}", coils, coils_));
    if (geometric()) check_columns(readouts);
  }
  if (options_.channels > 0 && coils_ > 0 && coils_ <= options_.channels) {
    scan_->info(fmt::format("coil_compression: {} coils are no more than the {} wanted; they stay as they are", coils_,
                            options_.channels));
    emit(std::move(readouts));
    return;
  }
  if (options_.per == "scan") {
    take(groups_[0], std::move(readouts), emit);
  } else if (readouts.frame) {
    take(groups_[readouts.frame->key.slice], std::move(readouts), emit);
  } else {
    for (Readouts& part : by_slice(std::move(readouts))) {
      Group& group = groups_[part.heads.front().idx.slice];
      take(group, std::move(part), emit);
    }
  }
}

/// Splits a batch without a frame, which may hold several slices.
std::vector<Readouts> CoilCompression::by_slice(Readouts&& readouts) const {
  std::vector<Readouts> parts;
  const auto slice = [&](std::size_t i) -> std::uint16_t { return readouts.heads[i].idx.slice; };
  const std::size_t count = readouts.heads.size();
  for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
    while (end < count && slice(end) == slice(begin)) ++end;
    if (begin == 0 && end == count) {
      parts.push_back(std::move(readouts));
      return parts;
    }
    const auto& shape = readouts.data.shape();
    const auto n = static_cast<std::int64_t>(end - begin), first = static_cast<std::int64_t>(begin);
    Readouts part;
    part.kind = readouts.kind;
    part.heads.assign(readouts.heads.begin() + first, readouts.heads.begin() + static_cast<std::ptrdiff_t>(end));
    part.data = scan_->compute.allocate<cfloat>({n, shape[1], shape[2]});
    scan_->compute.copy<cfloat>(readouts.data.cview().part(first * shape[1] * shape[2], part.data.shape()),
                                part.data.view());
    if (readouts.trajectory) {
      const auto& t = readouts.trajectory.shape();
      part.trajectory = scan_->compute.allocate_host<float>({n, t[1], t[2]});
      std::copy_n(readouts.trajectory.data() + first * t[1] * t[2], part.trajectory.size(), part.trajectory.data());
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

void CoilCompression::take(Group& group, Readouts&& readouts, const Emit<Readouts>& emit) {
  const bool imaging = readouts.kind == ReadoutKind::imaging;
  if (!group.matrix) {
    // Calibration among imaging readouts is part of the frame's band, whose rest is still to come.
    if (imaging && options_.from != "center" && group.calibration_readouts >= kFewestCalibrationReadouts &&
        !group.holds_imaging && !readouts.heads.empty()) {
      learn(group, std::nullopt);
      give(group, emit);
    } else {
      const bool last = imaging && readouts.last;
      const std::uint64_t frame = readouts.frame ? readouts.frame->id : 0;
      if (imaging)
        group.holds_imaging = group.holds_imaging || !readouts.heads.empty();
      else
        group.calibration_readouts += static_cast<std::int64_t>(readouts.heads.size());
      group.held.push_back(std::move(readouts));
      if (!last) return;
      learn(group, frame);
      if (group.matrix) give(group, emit);
      return;
    }
  }
  emit(compressed(group, std::move(readouts)));
}

bool CoilCompression::is_central(const protocol::AcquisitionHeader& head, ReadoutKind /*kind*/) const {
  const Space& space = spaces_.at(head.encoding_space_ref);
  const std::int64_t step_1 = head.idx.kspace_encode_step_1, step_2 = head.idx.kspace_encode_step_2;
  return !space.cartesian ||
         (step_1 >= space.first_1 && step_1 <= space.last_1 && step_2 >= space.first_2 && step_2 <= space.last_2);
}

bool CoilCompression::is_calibration(const protocol::AcquisitionHeader& head, ReadoutKind kind) const {
  return kind == ReadoutKind::calibration || (head.flags & kCalibrationAndImaging) != 0;
}

bool CoilCompression::is_any(const protocol::AcquisitionHeader& /*head*/, ReadoutKind /*kind*/) const { return true; }

/// Finds the virtual coils in the held calibration readouts, or in those of a frame. Other held readouts depend on the
/// batches, and are not used.
void CoilCompression::learn(Group& group, const std::optional<std::uint64_t>& frame) {
  numerics::Context& compute = scan_->compute;
  if (coils_ == 0) return;
  const std::int64_t positions = geometric() ? spaces_.front().columns : 1;
  auto gram = geometric() ? compute.zeros<numerics::cdouble>({coils_, coils_, positions})
                          : compute.zeros<numerics::cdouble>({coils_, coils_});
  bool found = false;
  if (!frame) {
    found = add(group, frame, &CoilCompression::is_any, gram.view());
  } else if (options_.from == "calibration") {
    found = add(group, frame, &CoilCompression::is_calibration, gram.view());
    if (!found)
      throw ClientError(
          "coil_compression: from: calibration, but no calibration readouts (flags 20, 21) came before the first frame "
          "was whole; use from: auto");
  } else {
    found = add(group, frame, &CoilCompression::is_central, gram.view()) ||
            add(group, frame, &CoilCompression::is_any, gram.view());
  }
  if (!found) return;  // an empty frame
  const HostArray<numerics::cdouble> host = compute.download<numerics::cdouble>(gram.cview());
  numerics::MemoryShare paid(compute.account());  // for Eigen's matrices, which do not use `new`
  paid.grow_to(2 * static_cast<std::uint64_t>(host.size()) * sizeof(numerics::cdouble));
  const std::vector<numerics::cdouble> values(host.data(), host.data() + host.size());
  const numerics::CompressionOptions options{kept_ ? *kept_ : options_.channels, options_.energy};
  numerics::Compression found_coils;
  try {
    found_coils = geometric() ? numerics::geometric_compression(compute.threads(), values, coils_, positions, options)
                              : numerics::compression_by_pca(compute.threads(), values, coils_, options);
  } catch (const std::invalid_argument& error) {
    throw ClientError(fmt::format("{} in the middle of k-space", error.what()));
  }
  if (!kept_)
    scan_->info(fmt::format("coil_compression: {} coils become {}, which hold {:.2f} % of the energy", coils_,
                            found_coils.kept, 100 * found_coils.energy));
  kept_ = found_coils.kept;
  group.energy = found_coils.energy;
  const numerics::Shape shape =
      geometric() ? numerics::Shape{found_coils.kept, coils_, positions} : numerics::Shape{found_coils.kept, coils_};
  group.matrix = compute.upload<cfloat>({found_coils.matrix.data(), shape});
  if (by_slice_) *by_slice_ = true;
}

/// Adds the held readouts of `frame`, or, without one, calibration readouts, for which `chosen` is true. Returns false
/// if there are none.
bool CoilCompression::add(const Group& group, const std::optional<std::uint64_t>& frame, Chosen chosen,
                          numerics::DeviceView<numerics::cdouble> gram) {
  numerics::Context& compute = scan_->compute;
  bool found = false;
  for (const Readouts& each : group.held) {
    const bool counts =
        each.kind == ReadoutKind::calibration ? options_.from != "center" : frame && each.frame->id == *frame;
    if (!counts) continue;
    Array<cfloat> hybrid;
    const auto& shape = each.data.shape();
    for (std::size_t i = 0; i < each.heads.size(); ++i) {
      const auto& head = each.heads[i];
      if (!(this->*chosen)(head, each.kind)) continue;
      compute.check_stop();
      found = true;
      const std::int64_t at = static_cast<std::int64_t>(i) * shape[1] * shape[2];
      if (geometric()) {
        if (!hybrid) hybrid = transformed(each.data, numerics::Direction::inverse);
        numerics::add_coil_grams(compute, hybrid.cview().part(at, {1, shape[1], shape[2]}), gram);
        continue;
      }
      std::int64_t first = head.discard_pre, last = shape[2] - head.discard_post;
      if (!spaces_.at(head.encoding_space_ref).whole_readouts) {
        first = std::max(first, head.center_sample - options_.lines / 2);
        last = std::max(first, std::min(last, head.center_sample - options_.lines / 2 + options_.lines));
      }
      numerics::add_coil_gram(compute, each.data.cview().part(at, {1, shape[1], shape[2]}), first, last, gram);
    }
  }
  return found;
}

void CoilCompression::check_columns(const Readouts& readouts) const {
  const std::int64_t columns = spaces_.front().columns;
  for (const auto& head : readouts.heads)
    if (head.number_of_samples != columns || head.discard_pre + head.discard_post > 0)
      throw ClientError(fmt::format(
          "coil_compression: method geometric transforms whole readouts of {} samples, but one has {} of {} "
          "(an asymmetric echo, or another encoding space); use method: pca",
          columns, head.number_of_samples - head.discard_pre - head.discard_post, +head.number_of_samples));
}

/// Transforms along the readout; forward undoes inverse. Each readout is transformed separately, so its bits do not
/// depend on the batches.
Array<cfloat> CoilCompression::transformed(const Array<cfloat>& data, numerics::Direction direction) const {
  const std::int64_t samples = data.shape()[2];
  Array<cfloat> out = scan_->compute.allocate<cfloat>(data.shape());
  const float scale = direction == numerics::Direction::inverse ? 1.0f / static_cast<float>(samples) : 1.0f;
  for (std::int64_t i = 0; i < data.shape()[0]; ++i)
    numerics::centered_fft(scan_->compute, data.cview().slice(i), out.view().slice(i), {samples}, 1, direction, scale);
  return out;
}

Readouts CoilCompression::compressed(const Group& group, Readouts&& readouts) const {
  numerics::Context& compute = scan_->compute;
  const std::int64_t kept = group.matrix.shape()[0];
  if (!readouts.heads.empty()) {
    const auto& shape = readouts.data.shape();
    Array<cfloat> to = compute.allocate<cfloat>({shape[0], kept, shape[2]});
    const Array<cfloat> from =
        geometric() ? transformed(readouts.data, numerics::Direction::inverse) : std::move(readouts.data);
    numerics::compress(compute, group.matrix.cview(), from.cview(), to.view());
    readouts.data = geometric() ? transformed(to, numerics::Direction::forward) : std::move(to);
    for (auto& head : readouts.heads) head.active_channels = static_cast<std::uint16_t>(kept);
  }
  if (readouts.frame)
    readouts.frame = with_notes(*readouts.frame, {{"coils_received", std::to_string(coils_)},
                                                  {"coils_used", std::to_string(kept)},
                                                  {"compression_energy", fmt::format("{:.5f}", group.energy)}});
  return std::move(readouts);
}

/// Passes on the held readouts, once the virtual coils are known.
void CoilCompression::give(Group& group, const Emit<Readouts>& emit) {
  for (Readouts& each : std::exchange(group.held, {})) emit(compressed(group, std::move(each)));
}

/// Drops held readouts, whose frames never became whole.
void CoilCompression::finish(End /*how*/, const Emit<Readouts>& /*emit*/) { groups_.clear(); }

}  // namespace echotrain
