#include "clients/cpp/simulate/epi_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "clients/cpp/base/parallel.h"
#include "clients/cpp/base/usage_error.h"

namespace echotrain::client {
namespace {

constexpr double kLeftOut = 0.15, kStep = 0.9, kFlatPerPoint = 5;
constexpr double kTrainMs = 100;  // from train to train, at least

}  // namespace

EpiReadout::EpiReadout(const EpiOptions& options, int matrix)
    : ramp(options.ramp_us),
      flat(options.flat_us > 0 ? options.flat_us : kFlatPerPoint * matrix),
      delay(std::round(kLeftOut * ramp)),
      dwell(0),
      samples(matrix),
      matrix_(matrix) {
  const double window = echo_spacing() - 2 * delay;
  if (ramp > 0) {
    const double widest = kStep * (area(echo_spacing() - delay) - area(delay)) / matrix;
    samples = static_cast<int>(std::ceil(window / widest));
  }
  dwell = window / samples;
}

double EpiReadout::area(double time) const {
  const double t = std::clamp(time, 0.0, echo_spacing());
  if (t < ramp) return t * t / (2 * ramp);
  if (t <= ramp + flat) return ramp / 2 + t - ramp;
  const double left = echo_spacing() - t;
  return ramp + flat - left * left / (2 * ramp);
}

double EpiReadout::position(int s, bool reversed, double late) const {
  const double covered = area(echo_spacing() - delay) - area(delay);
  const double k = (area(delay + (s + 0.5) * dwell - late) - area(echo_spacing()) / 2) / covered;
  return reversed ? -k : k;
}

std::string EpiReadout::header(const SimulateOptions& options) const {
  const auto parameter = [](const char* type, const char* name, double value) {
    return fmt::format("<userParameter{0}><name>{1}</name><value>{2}</value></userParameter{0}>", type, name, value);
  };
  return "    <trajectoryDescription><identifier>ConventionalEPI</identifier>" +
         parameter("Long", "etl", (options.matrix + options.epi.shots - 1) / options.epi.shots) +
         parameter("Long", "numberOfNavigators", options.epi.navigators) + parameter("Long", "rampUpTime", ramp) +
         parameter("Long", "rampDownTime", ramp) + parameter("Long", "flatTopTime", flat) +
         parameter("Long", "echoSpacing", echo_spacing()) + parameter("Long", "acqDelayTime", delay) +
         parameter("Long", "numSamples", samples) + parameter("Double", "dwellTime", dwell) +
         "</trajectoryDescription>\n";
}

EpiScanner::EpiScanner(const SimulateOptions& options, const ScanPath& scan, const Undersampling& lines,
                       const std::vector<Phantom>& phantoms, const CoilSet& coils, protocol::DatasetWriter& file)
    : options_(options),
      scan_(scan),
      lines_(lines),
      phantoms_(phantoms),
      coils_(coils),
      readout_(options.epi, options.matrix),
      writer_(options, scan, file) {
  if (options.contrasts != 1 || options.oversampling != 1 || options.samples != 0 || options.depth != 1 ||
      options.undersampling.partial_echo < 1 || options.noise_only || options.motion != "none")
    throw UsageError(
        "--trajectory epi has one contrast and whole readouts of slices at rest: leave out --contrasts, "
        "--oversampling, "
        "--samples, --depth, --partial-echo, --noise-only and --motion");
  const UndersamplingOptions& lines_left = options.undersampling;
  if (options.slices % lines_left.multiband != 0)
    throw UsageError(
        fmt::format("--slices {} are no multiple of --multiband {}", options.slices, lines_left.multiband));
  if (options.epi.references != "epi" && options.epi.references != "flash" && options.epi.references != "dual")
    throw UsageError("unknown --references '" + options.epi.references + "'; use epi, dual or flash");
  if (options.epi.references != "epi" && lines_left.calibration_mode != "separate")
    throw UsageError("--references " + options.epi.references +
                     " are lines of their own: give --calibration-mode separate");
  if (options.epi.shots > scan.shots())
    throw UsageError(fmt::format("--shots {} are more than the scan's {} lines", options.epi.shots, scan.shots()));
}

void EpiScanner::scan() {
  if (options_.noise_scan) writer_.noise_readouts(readout_.dwell);
  clock_ms_ = writer_.written() * repetition_time_ms(options_);
  if (options_.epi.references == "flash")
    plain_references();
  else
    acquire(0, lines_.before(), true);
  for (int frame = 0; frame < options_.frames; ++frame) acquire(frame, lines_.frame(frame), false);
}

std::size_t EpiScanner::readouts() const {
  std::size_t count = 0;
  for (const auto& train : trains(lines_.frame(0))) count += train.size();
  return count;
}

std::vector<std::vector<EpiScanner::Echo>> EpiScanner::trains(const std::vector<AcquiredReadout>& list,
                                                              bool opposite) const {
  const auto shots = static_cast<std::size_t>(options_.epi.shots);
  std::vector<std::vector<Echo>> out;
  for (std::size_t shot = 0; shot < shots && shot < list.size(); ++shot) {
    std::vector<Echo> train;
    for (int n = 0; n < options_.epi.navigators; ++n) train.push_back({.line = scan_.shots() / 2, .navigator = true});
    const std::size_t navigators = train.size();
    for (std::size_t i = shot; i < list.size(); i += shots) {
      const AcquiredReadout& next = options_.epi.reverse_blips ? list[list.size() - 1 - i] : list[i];
      train.push_back({.line = scan_.steps(next.readout).shot, .image = next.image, .calibration = next.calibration});
    }
    for (std::size_t e = 0; e < train.size(); ++e) {
      // The first line of the image runs forward, as the first navigator does.
      train[e].reversed = ((e < navigators ? e : e - navigators) % 2 == 1) != opposite;
      train[e].begin_us = static_cast<double>(e) * readout_.echo_spacing();
    }
    out.push_back(std::move(train));
  }
  return out;
}

/// Slices, or groups of them, in the order of their acquisition.
std::vector<EpiScanner::Slices> EpiScanner::order(bool reference) const {
  const int at_once = reference ? 1 : options_.undersampling.multiband, groups = options_.slices / at_once;
  std::vector<Slices> out;
  const int step = options_.epi.interleaved ? 2 : 1;
  for (int begin = 0; begin < step; ++begin)
    for (int first = begin; first < groups; first += step) out.push_back({first, groups, at_once});
  return out;
}

const Phantom& EpiScanner::phantom_of(int slice) const {
  return phantoms_[phantoms_.size() > 1 ? static_cast<std::size_t>(slice) : 0];
}

/// Lines as FLASH acquires them: one after each excitation, regular, forward, on resonance.
void EpiScanner::plain_references() {
  const auto samples = static_cast<std::size_t>(options_.matrix), coils = static_cast<std::size_t>(options_.coils);
  for (const Slices& slices : order(true))
    for (const AcquiredReadout& acquired : lines_.before()) {
      const int line = scan_.steps(acquired.readout).shot;
      protocol::AcquisitionHeader head = writer_.header(0, clock_ms_);
      head.number_of_samples = static_cast<std::uint16_t>(samples);
      head.center_sample = static_cast<std::uint16_t>(samples / 2);
      head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(line - lines_.first_line());
      place_slice(head, options_, slices.first);
      raise_flag(head, true, ISMRMRD::ISMRMRD_ACQ_IS_PARALLEL_CALIBRATION);
      ReadoutWriter::Samples data(samples * coils);
      std::vector<cdouble> signal(coils);
      for (std::size_t s = 0; s < samples; ++s) {
        const double kx = (static_cast<double>(s) - static_cast<double>(samples / 2)) / scan_.matrix();
        coils_.kspace(phantom_of(slices.first), {kx, static_cast<double>(line - scan_.shots() / 2) / scan_.matrix(), 0},
                      signal);
        for (std::size_t c = 0; c < coils; ++c) data[c * samples + s] = std::complex<float>(signal[c]);
      }
      writer_.write(head, {}, std::move(data));
      clock_ms_ += repetition_time_ms(options_);
    }
}

void EpiScanner::acquire(int frame, const std::vector<AcquiredReadout>& list, bool reference) {
  std::vector<std::vector<Echo>> all = trains(list);
  if (reference && options_.epi.references == "dual")
    for (std::vector<Echo>& train : trains(list, true)) all.push_back(std::move(train));
  const double b0 = options_.epi.b0_hz + frame * options_.epi.b0_drift_hz;
  const std::vector<Slices> slices = order(reference);
  for (std::size_t next = 0; next < slices.size(); ++next) {
    for (std::size_t shot = 0; shot < all.size(); ++shot) {
      const std::vector<Echo>& train = all[shot];
      const std::vector<ReadoutWriter::Samples>& data = measured(train, slices[next], b0);
      for (std::size_t e = 0; e < train.size(); ++e) {
        const Echo& echo = train[e];
        protocol::AcquisitionHeader head = writer_.header(0, clock_ms_ + echo.begin_us / 1000);
        head.number_of_samples = static_cast<std::uint16_t>(readout_.samples);
        head.center_sample = static_cast<std::uint16_t>(readout_.samples / 2);
        head.sample_time_us = static_cast<float>(readout_.dwell);
        head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(echo.line - lines_.first_line());
        head.idx.repetition = static_cast<std::uint16_t>(frame);
        head.idx.segment = echo.reversed ? 1 : 0;
        place_slice(head, options_, slices[next].first);
        const bool last = shot + 1 == all.size() && e + 1 == train.size();
        const bool last_of_all = last && next + 1 == slices.size() && !reference;
        raise_flag(head, echo.reversed, ISMRMRD::ISMRMRD_ACQ_IS_REVERSE);
        raise_flag(head, echo.navigator, ISMRMRD::ISMRMRD_ACQ_IS_PHASECORR_DATA);
        raise_flag(head, shot == 0 && e == 0, ISMRMRD::ISMRMRD_ACQ_FIRST_IN_SLICE);
        raise_flag(head, last, ISMRMRD::ISMRMRD_ACQ_LAST_IN_SLICE);
        raise_flag(head, last_of_all, ISMRMRD::ISMRMRD_ACQ_LAST_IN_REPETITION);
        raise_flag(head, last_of_all && frame + 1 == options_.frames, ISMRMRD::ISMRMRD_ACQ_LAST_IN_MEASUREMENT);
        raise_calibration(head, echo.image, echo.calibration);
        writer_.write(head, {}, data[e]);
      }
      const double train_ms = static_cast<double>(train.size()) * readout_.echo_spacing() / 1000;
      clock_ms_ += std::max({kTrainMs, repetition_time_ms(options_), train_ms});
    }
  }
}

const std::vector<ReadoutWriter::Samples>& EpiScanner::measured(const std::vector<Echo>& train, const Slices& slices,
                                                                double b0_hz) {
  if (options_.epi.b0_drift_hz != 0 || options_.undersampling.calibration_mode == "interleaved") known_.clear();
  const int slice = phantoms_.size() > 1 ? slices.first : 0;
  const auto [at, is_new] = known_.try_emplace({slice, slices.count, train.back().line, static_cast<int>(train.size()),
                                                train.back().image      ? 0
                                                : train.back().reversed ? 2
                                                                        : 1});
  std::vector<ReadoutWriter::Samples>& data = at->second;
  if (is_new) {
    data.resize(train.size());
    parallel_for(train.size(), [&](std::size_t e) { data[e] = measure(train[e], slices, b0_hz); });
  }
  return data;
}

/// Gives the object's k-space. Reversed lines have the phase a cos(u), u = pi (x + 2 y) / fov: exp(i a cos u) =
/// sum_n i^n J_n(a) exp(i n u), and exp(i n u) moves k-space by n / 2 and n steps.
void EpiScanner::object_kspace(const Phantom& phantom, double kx, double ky, bool reversed,
                               std::vector<cdouble>& signal) const {
  const double a = options_.epi.ghost_wave;
  if (!reversed || a == 0) {
    coils_.kspace(phantom, {kx, ky, 0}, signal);
    return;
  }
  std::vector<cdouble> part(signal.size());
  std::fill(signal.begin(), signal.end(), cdouble{});
  const int most = static_cast<int>(std::ceil(std::abs(a))) + 20;
  for (int n = -most; n <= most; ++n) {
    const double size = std::cyl_bessel_j(std::abs(n), std::abs(a));  // i^n J_n(a) = i^|n| J_|n|(a)
    if (size < 1e-13 && size > -1e-13) continue;
    coils_.kspace(phantom, {kx - n / 2.0 / scan_.matrix(), ky - n / static_cast<double>(scan_.matrix()), 0}, part);
    const cdouble weight = size * std::polar(1.0, std::copysign(std::numbers::pi / 2, a) * std::abs(n));
    for (std::size_t c = 0; c < signal.size(); ++c) signal[c] += weight * part[c];
  }
}

ReadoutWriter::Samples EpiScanner::measure(const Echo& echo, const Slices& slices, double b0_hz) const {
  const auto samples = static_cast<std::size_t>(readout_.samples), coils = static_cast<std::size_t>(options_.coils);
  ReadoutWriter::Samples data(samples * coils);
  std::vector<cdouble> signal(coils);
  const double ky = echo.navigator ? 0 : static_cast<double>(echo.line - scan_.shots() / 2) / scan_.matrix();
  // The ghost of a phase p is tan(p / 2) of the object.
  const int shift = options_.undersampling.fov_shift;
  const double odd_even = echo.reversed ? 2 * std::atan(options_.epi.ghost) : 0;
  for (std::size_t s = 0; s < samples; ++s) {
    const double kx = readout_.position(static_cast<int>(s), echo.reversed, options_.epi.gradient_delay_us);
    const double time = echo.begin_us + readout_.delay + (static_cast<double>(s) + 0.5) * readout_.dwell;
    const cdouble phase = std::polar(1.0, odd_even + 2 * std::numbers::pi * b0_hz * time * 1e-6);
    // A field that rises along an axis moves k-space along it.
    const double moved_x = options_.epi.b0_across_x_hz * time * 1e-6 / scan_.matrix(),
                 moved_y = options_.epi.b0_across_y_hz * time * 1e-6 / scan_.matrix();
    for (int m = 0; m < slices.count; ++m) {
      const double turns = echo.navigator ? 0 : static_cast<double>(m * lines_.blips(echo.line)) / shift;
      const cdouble factor = phase * std::polar(1.0, 2 * std::numbers::pi * turns);
      object_kspace(phantom_of(slices.first + m * slices.apart), kx - moved_x, ky - moved_y, echo.reversed, signal);
      for (std::size_t c = 0; c < coils; ++c) data[c * samples + s] += std::complex<float>(factor * signal[c]);
    }
  }
  return data;
}

}  // namespace echotrain::client
