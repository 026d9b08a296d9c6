#include "gadgets/ultrasound/echo_traces.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <utility>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/ultrasound/echo_geometry.h"

namespace echotrain {
namespace {

constexpr int kMostWaves = 1024;  // bounded, because each wave has its own plan and its own image

/// Reads a number of user_float, which must lie within (low, high].
double field(const protocol::AcquisitionHeader& head, int which, const char* what, double low, double high) {
  const double value = head.user_float[which];
  if (!(value > low && value <= high))
    throw ClientError(
        fmt::format("user_float[{}] of readout {} is {}, but ultrasound readouts have the {} there, above {} and up to "
                    "{} (docs/ultrasound.md)",
                    which, +head.scan_counter, value, what, low, high));
  return value;
}

EchoGeometry geometry_of(const protocol::AcquisitionHeader& head) {
  const double interval_us = head.sample_time_us;
  if (!(interval_us > 1e-5 && interval_us <= 100))
    throw ClientError(fmt::format(
        "sample_time_us of readout {} is {}, but echoes are sampled at intervals above 1e-5 us and up to 100 us",
        +head.scan_counter, interval_us));
  EchoGeometry out;
  out.sampling_hz = 1e6 / interval_us;
  out.pitch_mm = field(head, 2, "pitch of the elements [mm]", 0, 1000);
  out.sound_mm_per_s = 1e3 * field(head, 3, "speed of sound [m/s]", 0, 1e5);
  out.center_hz = 1e6 * field(head, 4, "centre frequency [MHz]", 0, 1000);
  out.demodulated_hz = 1e6 * field(head, 5, "demodulation frequency [MHz], 0 for RF,", -1e-30, 1000);
  out.elements = head.active_channels;
  return out;
}

EchoGeometry::Wave wave_of(const protocol::AcquisitionHeader& head) {
  EchoGeometry::Wave wave;
  wave.angle = field(head, 0, "steering angle [degrees]", -80, 80) * std::numbers::pi / 180;
  wave.first_sample = 1e-6 * (field(head, 1, "time of the first sample [us]", -1e6, 1e6) +
                              static_cast<double>(head.discard_pre) * static_cast<double>(head.sample_time_us));
  return wave;
}

}  // namespace

Parameters<EchoTraces::Options> EchoTraces::parameters() { return {}; }

void EchoTraces::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  for (const auto& encoding : header.encodings) {
    if (encoding.trajectory != protocol::Trajectory::other)
      throw ClientError(
          fmt::format("this pipeline images ultrasound echoes, whose header has the trajectory 'other', not '{}'",
                      protocol::to_string(encoding.trajectory)));
    const auto& limit = encoding.kspace_encoding_step_1;
    if (limit && limit->maximum - limit->minimum >= kMostWaves)
      throw ClientError(fmt::format("the header announces {} waves per image; at most {} are possible",
                                    limit->maximum - limit->minimum + 1, kMostWaves));
    waves_.push_back(limit ? Waves{limit->minimum, limit->maximum - limit->minimum + 1} : Waves{});
  }
}

void EchoTraces::process(Readouts&& readouts, const Emit<Echoes>& emit) {
  if (readouts.kind != protocol::ReadoutKind::imaging) return;
  Buffer& buffer = open_[readouts.frame->id];
  if (!readouts.heads.empty()) add(buffer, readouts, waves_.at(readouts.frame->key.encoding).count);
  if (!readouts.last) return;
  Buffer whole = std::move(buffer);
  open_.erase(readouts.frame->id);
  if (whole.data) emit(complete(std::move(whole), *readouts.frame));
}

void EchoTraces::add(Buffer& buffer, const Readouts& readouts, std::int64_t waves) {
  const std::int64_t elements = readouts.data.shape()[1], samples = readouts.data.shape()[2];
  if (!buffer.data) {
    buffer.geometry = geometry_of(readouts.heads.front());
    buffer.geometry.waves.resize(static_cast<std::size_t>(waves));
    buffer.samples = samples;
    buffer.hits.assign(static_cast<std::size_t>(waves), 0);
    // The samples are followed by as many zeros, so that echoes which a Fourier transform delays do not wrap to the
    // beginning.
    buffer.data = scan_->compute.zeros<cfloat>({elements, waves, numerics::fast_even_size(2 * samples)});
  }
  if (samples != buffer.samples || elements != buffer.geometry.elements)
    throw ClientError(fmt::format("a readout of {} elements and {} samples came in a frame of {} and {}", elements,
                                  samples, buffer.geometry.elements, buffer.samples));
  const std::int64_t first = waves_.at(readouts.frame->key.encoding).first;
  for (std::size_t i = 0; i < readouts.heads.size(); ++i) {
    const auto& head = readouts.heads[i];
    EchoGeometry geometry = geometry_of(head);
    geometry.waves = buffer.geometry.waves;
    if (!(geometry == buffer.geometry))
      throw ClientError(fmt::format("readout {} was sampled differently from others of its image", +head.scan_counter));
    const std::int64_t step = head.idx.kspace_encode_step_1 - first;
    if (step < 0 || step >= waves) {
      scan_->warn("some waves have numbers outside the header's limits; their readouts are left out");
      continue;
    }
    const EchoGeometry::Wave wave = wave_of(head);
    EchoGeometry::Wave& known = buffer.geometry.waves[static_cast<std::size_t>(step)];
    if (buffer.hits[static_cast<std::size_t>(step)]++ > 0 && !(known == wave))
      throw ClientError(fmt::format("readout {} repeats wave {} with another angle or time", +head.scan_counter,
                                    +head.idx.kspace_encode_step_1));
    known = wave;
    const std::int64_t begin = head.discard_pre, end = samples - head.discard_post;
    const auto line = static_cast<std::int32_t>(step);
    if (begin < end)
      numerics::add_lines(
          scan_->compute,
          readouts.data.view().part(static_cast<std::int64_t>(i) * elements * samples, {1, elements, samples}),
          {&line, {1}}, {begin, end, 0}, buffer.data.view());
  }
}

Echoes EchoTraces::complete(Buffer buffer, const Frame& frame) {
  std::vector<float> factors;
  std::int64_t missing = 0;
  bool repeated = false;
  for (const std::int32_t hits : buffer.hits) {
    factors.push_back(hits > 1 ? 1.0f / static_cast<float>(hits) : 1.0f);
    missing += hits == 0 ? 1 : 0;
    repeated |= hits > 1;
  }
  if (repeated)
    numerics::scale_lines(scan_->compute, {factors.data(), {static_cast<std::int64_t>(factors.size())}},
                          buffer.data.view());
  return {with_notes(frame, {{"missing_waves", std::to_string(missing)}}), buffer.data,
          std::make_shared<EchoGeometry>(std::move(buffer.geometry))};
}

}  // namespace echotrain
