#include "gadgets/readouts/noise_adjust.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "gadgets/numerics/core/team/team.h"
#include "gadgets/shared/prescan/receive_prescan.h"
#include "gadgets/shared/program/scan_environment.h"
#include "gadgets/shared/program/scan_view.h"
#include "gadgets/shared/store/coil_labels.h"
#include "protocol/data/scanner_device.h"

namespace echotrain {
namespace {

using protocol::ReadoutKind;

std::int64_t age_s(std::int64_t unix_s) { return std::max<std::int64_t>(0, unix_seconds() - unix_s); }

}  // namespace

Parameters<NoiseAdjust::Options> NoiseAdjust::parameters() {
  return Parameters<Options>()
      .choice("noise", &Options::noise, {"auto", "scan", "store", "none"},
              "which noise: the scan's own readouts, the noise scan that the header names, or none; auto: the scan's "
              "own, else the one that is named")
      .flag("require_noise", &Options::require_noise, "refuse scans whose noise is not known");
}

void NoiseAdjust::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  const auto& port = scan.compute.cache<ScanEnvironment>();
  measurement_ = {port.owner, protocol::device_of(header.xml), header.measurement_id, port.client};
  dependency_ = header.noise_dependency;
  labels_ = header.coil_labels;
  bandwidth_ = header.relative_receiver_noise_bandwidth.value_or(1.0);
  if (!(bandwidth_ > 0)) bandwidth_ = 1;
  ReceivePrescan::of(scan).whitens = true;
  if (options_.require_noise && options_.noise == "none")
    throw ClientError("noise_adjust: noise: none and require_noise: true contradict each other");
}

void NoiseAdjust::process(Readouts&& readouts, const Emit<Readouts>& emit) {
  if (readouts.kind == ReadoutKind::noise) {
    learn(readouts);
    return;
  }
  const bool imaging = readouts.kind == ReadoutKind::imaging;
  const bool taken = (imaging || readouts.kind == ReadoutKind::calibration) && readouts.data;
  const bool navigators = readouts.kind == ReadoutKind::phase_correction && readouts.host_data;
  if ((taken || navigators) && !readouts.heads.empty()) {
    const auto coils = static_cast<int>(taken ? readouts.data.shape()[1] : readouts.host_data.shape()[1]);
    look_up(coils, imaging);
    // Calibration and navigators of another number of coils pass unchanged; their users compare them with the images'.
    const Noise* known = noise();
    if (known != nullptr && (imaging || known->coils == coils)) whiten(readouts);
    if (known == nullptr && imaging && options_.require_noise)
      throw ClientError(
          "noise_adjust: require_noise: true, but the scan has no noise readouts, and no noise scan that its header "
          "names is known here");
  }
  if (imaging && readouts.last) add_notes(readouts);
  emit(std::move(readouts));
}

/// Keeps the measured noise for scans that name this one.
void NoiseAdjust::finish(End how, const Emit<Readouts>& /*emit*/) {
  if (how != End::complete || !covariance_ || measurement_.measurement_id.empty() || !has_store()) return;
  if (!labels_.empty() && labels_.size() != static_cast<std::size_t>(covariance_->coils())) {
    scan_->info(fmt::format("noise is not kept for later scans: {} labels of the header do not name {} coils",
                            labels_.size(), covariance_->coils()));
    return;
  }
  NoiseRecord record;
  record.coils = covariance_->coils();
  record.dwell_us = noise_dwell_us_;
  record.samples = covariance_->samples();
  record.labels = labels_;
  record.made_unix_s = unix_seconds();
  try {
    record.covariance = covariance_->covariance();
    numerics::whitening_matrix(record.covariance, record.coils, 1);
  } catch (const std::invalid_argument&) {
    scan_->warn(
        fmt::format("the noise of {} coils has no usable covariance and is not kept for later scans", record.coils));
    return;
  }
  NoiseStore& store = scan_->compute.resources().get<NoiseStore>();
  if (store.hours() == 0) return;
  const auto added = store.add(measurement_, record);
  if (added == ScanStore::Added::no)
    return scan_->info("noise is not kept for later scans: scan_store_mib has no room for it");
  scan_->info(fmt::format("noise of {} coils ({} samples) is kept for scans that name measurement {}{}", record.coils,
                          record.samples, end_of_id(measurement_.measurement_id),
                          added == ScanStore::Added::replaced ? ", in place of what an earlier scan left" : ""));
}

void NoiseAdjust::whiten(Readouts& readouts) {
  const Noise& known = *noise();
  const auto& shape = readouts.data ? readouts.data.shape() : readouts.host_data.shape();
  if (shape[1] != known.coils)
    throw ClientError(fmt::format("noise was measured with {} coils, but readouts have {}", known.coils, shape[1]));
  // Contrasts may differ in bandwidth: readouts of one dwell time are whitened together.
  const auto dwell = [&](std::int64_t i) -> double {
    return readouts.heads[static_cast<std::size_t>(i)].sample_time_us;
  };
  for (std::int64_t begin = 0; begin < shape[0];) {
    std::int64_t end = begin + 1;
    while (end < shape[0] && dwell(end) == dwell(begin)) ++end;
    if (!matrix_ || dwell(begin) != matrix_dwell_us_) make_matrix(known, dwell(begin));
    const std::int64_t first = begin * shape[1] * shape[2];
    const numerics::Shape run{end - begin, shape[1], shape[2]};
    if (readouts.data)
      numerics::apply_coil_matrix(scan_->compute, matrix_.cview(), readouts.data.view().part(first, run));
    else
      numerics::apply_coil_matrix(scan_->compute, {host_matrix_.data(), {shape[1], shape[1]}},
                                  readouts.host_data.view().part(first, run));
    begin = end;
  }
  readouts.white = true;
}

void NoiseAdjust::learn(const Readouts& noise) {
  const auto channels = static_cast<int>(noise.host_data.shape()[1]);
  if (!covariance_ || covariance_->coils() != channels) {
    covariance_.emplace(channels);
    noise_dwell_us_ = noise.heads.front().sample_time_us;
  }
  for (std::int64_t i = 0; i < noise.host_data.shape()[0]; ++i) covariance_->add(noise.host_data.view().slice(i));
  measured_.reset();
  matrix_ = {};
}

/// True if noise of other scans is available. Ranks have separate stores, and could whiten differently.
bool NoiseAdjust::has_store() const { return scan_->team == nullptr || scan_->team->in_one_process(); }

/// Takes the noise that the header names from the store, at the first readout that needs it; calibration may have other
/// coils than images, so that only images show that it cannot be used.
void NoiseAdjust::look_up(int coils, bool imaging) {
  const bool wanted = options_.noise == "store" || (options_.noise == "auto" && !covariance_);
  const bool of_calibration = imaging && stored_ && stored_->coils != coils;
  if (!wanted || dependency_.empty() || (looked_up_ && !of_calibration)) return;
  stored_.reset();
  matrix_ = {};
  std::string why_not = "is not used by several ranks, each of which has a store of its own";
  if (has_store()) {
    NoiseStore& store = scan_->compute.resources().get<NoiseStore>();
    why_not = fmt::format("is not known here (noise is kept for {} h)", store.hours());
    if (const auto record = store.find({measurement_.owner, measurement_.device, dependency_})) {
      stored_ = of_these_coils(*record, coils, why_not);
      stored_unix_s_ = record->made_unix_s;
    }
  }
  looked_up_ = imaging || stored_;
  if (stored_) {
    scan_->info(fmt::format("readouts are whitened by the noise of another scan, {} ({} samples, {} s old)",
                            end_of_id(dependency_), stored_->samples, age_s(stored_unix_s_)));
  } else if (imaging && options_.require_noise) {
    throw ClientError(fmt::format("noise_adjust: require_noise: true, but the noise scan {} that the header names {}",
                                  end_of_id(dependency_), why_not));
  } else if (imaging) {
    scan_->warn(fmt::format("the noise scan {} that the header names {}: images are NOT whitened",
                            end_of_id(dependency_), why_not));
  }
}

std::optional<NoiseAdjust::Noise> NoiseAdjust::of_these_coils(const NoiseRecord& record, int coils,
                                                              std::string& why_not) const {
  const auto theirs = matching_coils({coils, labels_}, {record.coils, record.labels}, why_not);
  if (!theirs) return std::nullopt;
  Noise out{coils, {}, record.dwell_us, record.samples};
  for (const std::size_t a : *theirs)
    for (const std::size_t b : *theirs)
      out.covariance.push_back(record.covariance[a * static_cast<std::size_t>(record.coils) + b]);
  return out;
}

/// The noise to whiten with now; null if there is none.
const NoiseAdjust::Noise* NoiseAdjust::noise() {
  const bool own = options_.noise == "auto" || options_.noise == "scan";
  if (!own || !covariance_) return stored_ ? &*stored_ : nullptr;
  if (!measured_) measured_ = Noise{covariance_->coils(), {}, noise_dwell_us_, covariance_->samples()};
  return &*measured_;
}

void NoiseAdjust::make_matrix(const Noise& noise, double dwell_us) {
  // Noise power is proportional to the bandwidth, so to 1 / dwell time. Senders may leave either dwell time at zero.
  const double dwell_ratio = noise.dwell_us > 0 && dwell_us > 0 ? noise.dwell_us / dwell_us : 1;
  try {
    const auto covariance = noise.covariance.empty() ? covariance_->covariance() : noise.covariance;
    host_matrix_ = numerics::whitening_matrix(covariance, noise.coils, dwell_ratio / bandwidth_);
    matrix_dwell_us_ = dwell_us;
    matrix_ = scan_->compute.upload<cfloat>({host_matrix_.data(), {noise.coils, noise.coils}});
    auto& prescan = ReceivePrescan::of(*scan_);
    prescan.whitening = host_matrix_;
    prescan.coils = noise.coils;
    if (const ScanView& view = scan_->compute.cache<ScanView>(); view.noise)
      view.noise({noise.coils, covariance, labels_, noise.samples, stored_ && &noise == &*stored_});
  } catch (const std::invalid_argument&) {
    throw ClientError(
        fmt::format("the noise scan ({} samples of {} coils) has no usable covariance: send at least a few times as "
                    "many noise samples as coils, "
                    "or leave 'noise_adjust' out of the pipeline",
                    noise.samples, noise.coils));
  }
}

void NoiseAdjust::add_notes(Readouts& readouts) {
  const Noise* known = noise();
  std::map<std::string, std::string> notes{{"noise", known == nullptr                    ? "none"
                                                     : measured_ && known == &*measured_ ? "scan"
                                                                                         : "store"}};
  if (known != nullptr) notes["noise_samples"] = std::to_string(known->samples);
  if (stored_ && known == &*stored_) notes["noise_age_s"] = std::to_string(age_s(stored_unix_s_));
  readouts.frame = with_notes(*readouts.frame, notes);
}

}  // namespace echotrain
