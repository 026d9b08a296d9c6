#include "protocol/pulseq/waveform.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include "protocol/files/scan_reader.h"

namespace echotrain::protocol::pulseq {
namespace {

constexpr std::size_t kMostTogether = std::size_t{16} << 20;
constexpr double kMostExcitation = 90.01;  // degrees; pypulseq's bound
constexpr double kPeak = 0.99999;          // and what counts as a pulse's plateau there

void integrate(GradientWave& w) {
  w.cycles_per_m.assign(w.seconds.size(), 0);
  for (std::size_t i = 1; i < w.seconds.size(); ++i)
    w.cycles_per_m[i] =
        w.cycles_per_m[i - 1] + (w.seconds[i] - w.seconds[i - 1]) * (w.hz_per_m[i] + w.hz_per_m[i - 1]) / 2;
}

}  // namespace

double GradientWave::integral(double until_s) const {
  if (seconds.empty() || until_s <= seconds.front()) return 0;
  if (until_s >= seconds.back()) return cycles_per_m.back();
  const auto next =
      static_cast<std::size_t>(std::upper_bound(seconds.begin(), seconds.end(), until_s) - seconds.begin());
  const std::size_t i = next - 1;
  const double passed = until_s - seconds[i], slope = (hz_per_m[next] - hz_per_m[i]) / (seconds[next] - seconds[i]);
  return cycles_per_m[i] + passed * (hz_per_m[i] + slope * passed / 2);
}

void WaveformMaker::refuse(const std::string& why) const {
  throw DatasetError(fmt::format("{}: {}", sequence_.name, why));
}

/// A shape's samples. Values that come twice are followed by how many more of them there are; with fewer values than
/// samples, they are the differences between samples.
std::vector<double> WaveformMaker::samples(std::uint32_t id) {
  const auto found = sequence_.shapes.find(id);
  if (found == sequence_.shapes.end()) refuse(fmt::format("there is no shape {}", id));
  const Shape& shape = found->second;
  made_ += shape.samples;
  if (made_ > kMostTogether) refuse(fmt::format("its shapes have more than {} samples", kMostTogether));
  if (shape.values.size() == shape.samples) return shape.values;
  const auto misfit = [&] { refuse(fmt::format("shape {} does not unpack to its {} samples", id, shape.samples)); };
  std::vector<double> out;
  out.reserve(shape.samples);
  const std::vector<double>& from = shape.values;
  for (std::size_t i = 0; i < from.size();) {
    std::size_t count = 1, used = 1;
    if (i + 1 < from.size() && from[i] == from[i + 1]) {
      if (i + 2 >= from.size() || from[i + 2] < 0 || from[i + 2] > static_cast<double>(shape.samples)) misfit();
      count = static_cast<std::size_t>(from[i + 2]) + 2;
      used = 3;
    }
    if (count > shape.samples - out.size()) misfit();
    for (std::size_t n = 0; n < count; ++n) out.push_back((out.empty() ? 0 : out.back()) + from[i]);
    i += used;
  }
  if (out.size() != shape.samples) misfit();
  return out;
}

std::vector<double> WaveformMaker::times(std::uint32_t id, std::size_t count, double raster_s) {
  std::vector<double> out(count);
  if (id == 0) {
    made_ += count;
    for (std::size_t i = 0; i < count; ++i) out[i] = (static_cast<double>(i) + 0.5) * raster_s;
    return out;
  }
  out = samples(id);
  if (out.size() != count) refuse(fmt::format("shape {} has {} times for {} samples", id, out.size(), count));
  for (double& time : out) time *= raster_s;
  if (!std::is_sorted(out.begin(), out.end())) refuse(fmt::format("the times of shape {} do not rise", id));
  return out;
}

GradientWave WaveformMaker::waveform(const Gradient& g, double before) {
  GradientWave out;
  if (g.is_trapezoid) {
    const double up = g.delay_s + g.rise_s, flat = up + g.flat_s;
    out.seconds = {g.delay_s, up, flat, flat + g.fall_s};
    out.hz_per_m = {0, g.hz_per_m, g.hz_per_m, 0};
    integrate(out);
    return out;
  }
  const double raster = sequence_.gradient_raster_s;
  std::vector<double> values = samples(g.shape);
  if (values.empty()) refuse(fmt::format("shape {} of a gradient has no samples", g.shape));
  for (double& value : values) value *= g.hz_per_m;
  const std::size_t count = values.size();
  if (g.times != 0) {
    out.seconds = times(g.times, count, raster);
    out.hz_per_m = std::move(values);
  } else {
    // Samples lie in the middles of raster times, oversampled ones at their ends too; the shape's own ends are told, or
    // go on in a straight line.
    const double step = g.oversampled ? raster / 2 : raster;
    const double first = g.first.value_or(g.delay_s > 0 ? 0 : before);
    const double last = g.last.value_or(count > 1 ? (3 * values[count - 1] - values[count - 2]) / 2 : values.back());
    out.seconds.reserve(count + 2);
    out.hz_per_m.reserve(count + 2);
    out.seconds.push_back(0);
    out.hz_per_m.push_back(first);
    for (std::size_t i = 0; i < count; ++i) {
      out.seconds.push_back(raster / 2 + static_cast<double>(i) * step);
      out.hz_per_m.push_back(values[i]);
    }
    out.seconds.push_back(out.seconds.back() + raster / 2);
    out.hz_per_m.push_back(last);
  }
  for (double& time : out.seconds) time += g.delay_s;
  out.last = out.hz_per_m.back();
  integrate(out);
  return out;
}

std::optional<RfAction> WaveformMaker::action(const RfPulse& pulse) {
  if (pulse.center_s) {
    if (pulse.use != 'e' && pulse.use != 'u' && pulse.use != 'r') return std::nullopt;
    return RfAction{pulse.delay_s + *pulse.center_s, pulse.use == 'r'};
  }
  const std::array key{pulse.magnitude, pulse.phase, pulse.times};
  auto known = pulses_.find(key);
  if (known == pulses_.end()) known = pulses_.emplace(key, pulse_shape(pulse)).first;
  const auto& [center_s, turns_per_hz] = known->second;
  return RfAction{pulse.delay_s + center_s, 360 * turns_per_hz * std::abs(pulse.hz) >= kMostExcitation};
}

WaveformMaker::PulseShape WaveformMaker::pulse_shape(const RfPulse& pulse) {
  const std::vector<double> magnitude = samples(pulse.magnitude);
  if (magnitude.empty()) refuse(fmt::format("shape {} of an RF pulse has no samples", pulse.magnitude));
  const std::vector<double> at = times(pulse.times, magnitude.size(), sequence_.rf_raster_s);
  std::vector<double> phase(magnitude.size());
  if (pulse.phase != 0) phase = samples(pulse.phase);
  if (phase.size() != magnitude.size()) refuse("an RF pulse's shapes have different numbers of samples");
  const double peak = std::abs(*std::max_element(magnitude.begin(), magnitude.end(),
                                                 [](double a, double b) { return std::abs(a) < std::abs(b); }));
  std::size_t begin = magnitude.size(), end = 0;
  std::complex<double> turns = 0;
  for (std::size_t i = 0; i < magnitude.size(); ++i) {
    if (std::abs(magnitude[i]) >= kPeak * peak) {
      begin = std::min(begin, i);
      end = i;
    }
    if (i + 1 < at.size())
      turns += magnitude[i] * (at[i + 1] - at[i]) * std::polar(1.0, 2 * std::numbers::pi * phase[i]);
  }
  return {(at[begin] + at[end]) / 2, std::abs(turns)};
}

}  // namespace echotrain::protocol::pulseq
