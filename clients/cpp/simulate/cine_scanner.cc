#include "clients/cpp/simulate/cine_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "clients/cpp/base/parallel.h"
#include "clients/cpp/base/usage_error.h"

namespace echotrain::client {

namespace {

Systole systole_of(const SimulateOptions& options) {
  return options.systole == "weissler" ? Systole::weissler : Systole::linear;
}

}  // namespace

CineScanner::CineScanner(const SimulateOptions& options, const ScanPath& scan, const Undersampling& lines,
                         const CoilSet& coils, protocol::DatasetWriter& file,
                         const std::optional<Physiology>& physiology)
    : options_(options),
      scan_(scan),
      lines_(lines),
      coils_(coils),
      file_(file),
      writer_(options, scan, file),
      known_until_ms_(physiology ? physiology->beats_ms.back() : std::numeric_limits<double>::infinity()),
      heart_(physiology ? Heart(physiology->beats_ms, options.seed, systole_of(options))
                        : Heart(options.heart_rate, options.jitter, options.seed, systole_of(options))) {
  if (options.breathing_mm == 0) return;
  if (physiology && !physiology->breathing.empty())
    breathing_.emplace(physiology->breathing);
  else
    breathing_.emplace(options.breathing_rate, options.jitter, options.seed);
}

double CineScanner::shown_phase(const SimulateOptions& options, int phase) {
  if (options.gating != "prospective") return (phase + 0.5) / options.phases;
  return (phase + 0.5) * repetition_time_ms(options) * options.heart_rate / 60000;
}

void CineScanner::scan() {
  const std::vector<Shot> shots = options_.gating == "retrospective" ? retrospective()
                                  : options_.gating == "free"        ? free_running()
                                                                     : prospective();
  check_physiology(shots.back().milliseconds);
  std::vector<float> displacements_mm;  // of each readout
  constexpr std::size_t kAtOnce = 256;  // readouts measured together and then written
  for (std::size_t begin = 0; begin < shots.size(); begin += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, shots.size() - begin);
    std::vector<Body> bodies;
    for (std::size_t i = 0; i < count; ++i) {
      bodies.push_back(body(shots[begin + i].milliseconds));
      displacements_mm.push_back(static_cast<float>(bodies.back().shift_mm));
    }
    std::vector<ReadoutWriter::Samples> data(count);
    parallel_for(count, [&](std::size_t i) { data[i] = measure(shots[begin + i], bodies[i]); });
    for (std::size_t i = 0; i < count; ++i) write(shots[begin + i], std::move(data[i]));
  }
  // Includes all of the beat that ends the last interval.
  for (const auto& waveform : heart_.ecg(shots.back().milliseconds + 1.5 * heart_.mean_interval_ms()))
    file_.append(waveform);
  if (breathing_) file_.array("displacement_mm", {displacements_mm.size()}, displacements_mm.data());
}

void CineScanner::check_physiology(double last_ms) const {
  if (last_ms <= known_until_ms_) return;
  throw UsageError(
      fmt::format("--physiology {}: its last R wave is at {:.1f} s, but the scan lasts {:.1f} s: give fewer --frames, "
                  "--slices, --sweeps or lines, a smaller --tr-ms, or a longer file",
                  options_.physiology.string(), known_until_ms_ / 1000, last_ms / 1000));
}

std::vector<AcquiredReadout> CineScanner::lines_of(int repetition, int n) const {
  return lines_.frame(options_.undersampling.calibration_mode == "interleaved" ? n : repetition);
}

std::vector<CineScanner::Shot> CineScanner::prospective() {
  std::vector<Shot> shots;
  const double tr = repetition_time_ms(options_);
  std::size_t beat = 0;
  for (int repetition = 0; repetition < options_.frames; ++repetition) {
    std::vector<std::vector<AcquiredReadout>> lines;  // of each phase
    for (int phase = 0; phase < options_.phases; ++phase)
      lines.push_back(lines_of(repetition, repetition * options_.phases + phase));
    std::size_t most = 0;
    for (const auto& each : lines) most = std::max(most, each.size());
    for (int slice = 0; slice < options_.slices; ++slice) {
      for (std::size_t i = 0; i < most; ++i) {
        const double begin = heart_.beat_ms(beat);
        for (int phase = 0; phase < options_.phases; ++phase)
          if (const auto& own = lines[static_cast<std::size_t>(phase)]; i < own.size())
            shots.push_back({repetition, slice, phase, own[i], begin + (phase + 0.5) * tr, i + 1 == own.size(), false});
        do ++beat;
        while (heart_.beat_ms(beat) < begin + options_.phases * tr);
      }
      shots.back().last_in_repetition = slice + 1 == options_.slices;
    }
  }
  return shots;
}

std::vector<CineScanner::Shot> CineScanner::retrospective() {
  std::vector<Shot> shots;
  const double tr = repetition_time_ms(options_);
  const int per_slice = static_cast<int>(lines_of(0, 0).size()), lines = per_slice * options_.slices * options_.frames;
  const auto line_at = [&](double ms) { return std::max(0, static_cast<int>(heart_.beats_until(ms)) - 1); };
  for (int n = 0;; ++n) {
    const double now = (n + 0.5) * tr;
    const int line = line_at(now);
    if (line >= lines) return shots;
    const bool slice_ends = line_at(now + tr) != line && (line + 1) % per_slice == 0;
    const int slice = line / per_slice, repetition = slice / options_.slices;
    const std::vector<AcquiredReadout> now_lines = lines_of(repetition, n);
    const std::size_t i = std::min(static_cast<std::size_t>(line % per_slice), now_lines.size() - 1);
    shots.push_back({repetition, slice % options_.slices, 0, now_lines[i], now, slice_ends,
                     slice_ends && (slice + 1) % options_.slices == 0});
  }
}

std::vector<CineScanner::Shot> CineScanner::free_running() {
  std::vector<Shot> shots;
  const double tr = repetition_time_ms(options_);
  for (int repetition = 0; repetition < options_.frames; ++repetition)
    for (int slice = 0; slice < options_.slices; ++slice)
      for (int n = 0; n < options_.sweeps; ++n) {
        std::vector<AcquiredReadout> sweep;
        const std::vector<AcquiredReadout> lines = lines_of(repetition, repetition * options_.sweeps + n);
        for (std::size_t i = 0; i < lines.size(); ++i) {
          if (options_.centre_every > 0 && i % static_cast<std::size_t>(options_.centre_every) == 0)
            sweep.push_back({.readout = scan_.shots() / 2});
          sweep.push_back(lines[i]);
        }
        for (std::size_t i = 0; i < sweep.size(); ++i) {
          const bool last = n + 1 == options_.sweeps && i + 1 == sweep.size();
          shots.push_back({repetition, slice, 0, sweep[i], (static_cast<double>(shots.size()) + 0.5) * tr, last,
                           last && slice + 1 == options_.slices});
        }
      }
  return shots;
}

CineScanner::Body CineScanner::body(double ms) {
  return {heart_.phase(ms), heart_.strength(ms), breathing_ ? options_.breathing_mm * breathing_->depth(ms) : 0};
}

Phantom CineScanner::phantom(const Body& body) const {
  const double shift = body.shift_mm * scan_.matrix() / options_.fov_mm;
  return Phantom::beating(scan_.matrix(), body.phase, shift, body.strength);
}

ReadoutWriter::Samples CineScanner::measure(const Shot& shot, const Body& body) const {
  const Phantom phantom = this->phantom(body);
  const ReadoutPath path = scan_.readout(shot.line.readout, shot.repetition);
  const std::size_t samples = path.positions.size();
  ReadoutWriter::Samples data(samples * options_.coils);
  std::vector<cdouble> signal(options_.coils);
  for (std::size_t s = 0; s < samples; ++s) {
    coils_.kspace(phantom, path.positions[s], signal);
    for (int c = 0; c < options_.coils; ++c) data[c * samples + s] = std::complex<float>(signal[c]);
  }
  return data;
}

void CineScanner::write(const Shot& shot, ReadoutWriter::Samples data) {
  std::vector<float> trajectory;
  if (!scan_.cartesian()) trajectory = interleaved(scan_.readout(shot.line.readout, shot.repetition), scan_.dims());
  const int trajectory_dims = static_cast<int>(trajectory.size()) / scan_.samples();
  protocol::AcquisitionHeader head = writer_.header(trajectory_dims, shot.milliseconds);
  head.center_sample = static_cast<std::uint16_t>(scan_.center_sample());
  head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(shot.line.readout);
  head.idx.phase = static_cast<std::uint16_t>(shot.phase);
  head.idx.repetition = static_cast<std::uint16_t>(shot.repetition);
  place_slice(head, options_, shot.slice);
  const std::size_t begun = heart_.beats_until(shot.milliseconds);
  if (begun > 0)  // time since the trigger, as scanners say it
    head.physiology_time_stamp[0] =
        static_cast<std::uint32_t>(std::floor((shot.milliseconds - heart_.beat_ms(begun - 1)) / kTickMs));
  if (breathing_)
    head.physiology_time_stamp[1] =
        static_cast<std::uint32_t>(std::floor(std::max(0.0, breathing_->since_ms(shot.milliseconds)) / kTickMs));
  raise_flag(head, shot.line.readout == 0 && (options_.gating == "prospective" || !scan_.cartesian()),
             ISMRMRD::ISMRMRD_ACQ_FIRST_IN_SLICE);
  raise_flag(head, shot.last_in_slice, ISMRMRD::ISMRMRD_ACQ_LAST_IN_SLICE);
  raise_flag(head, shot.last_in_repetition, ISMRMRD::ISMRMRD_ACQ_LAST_IN_REPETITION);
  raise_flag(head, shot.last_in_repetition && shot.repetition + 1 == options_.frames,
             ISMRMRD::ISMRMRD_ACQ_LAST_IN_MEASUREMENT);
  raise_calibration(head, shot.line.image, shot.line.calibration);
  writer_.write(head, std::move(trajectory), std::move(data));
}

}  // namespace echotrain::client
