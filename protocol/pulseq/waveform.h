// A waveform is a gradient of one block as straight pieces, with its integral.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "protocol/pulseq/sequence.h"

namespace echotrain::protocol::pulseq {

/// Corners of the waveform, seconds from the block's begin; 0 before and after them.
struct GradientWave {
  std::vector<double> seconds, hz_per_m, cycles_per_m;  ///< the last: integral up to the corner
  double last = 0;                                      ///< at its end
  double end_s() const { return seconds.empty() ? 0 : seconds.back(); }
  double integral(double until_s) const;
};

/// What an RF pulse does to k-space: an excitation begins anew at 0, a refocusing pulse turns the sign.
struct RfAction {
  double seconds = 0;  ///< of the pulse's centre, from the block's begin
  bool refocuses = false;
};

/// Makes waveforms of a sequence's events. Its memory is bounded: throws DatasetError where shapes have more than
/// 16 Mi samples together, or where what they say does not fit together.
class WaveformMaker {
 public:
  /// The sequence must outlive this.
  explicit WaveformMaker(const Sequence& sequence) : sequence_(sequence) {}

  /// A gradient event. `before` is the strength with which the axis' gradient ended where this one begins: before
  /// version 1.5 shapes do not say how they begin.
  GradientWave waveform(const Gradient& gradient, double before);
  /// Nothing where the pulse is neither (an inversion, a saturation). Before version 1.5 a pulse of up to 90 degrees
  /// excites, another one refocuses, and the centre is where it is strongest, as Pulseq's own readers have it.
  std::optional<RfAction> action(const RfPulse& pulse);

 private:
  struct PulseShape {
    double center_s = 0, turns_per_hz = 0;
  };
  PulseShape pulse_shape(const RfPulse& pulse);
  std::vector<double> samples(std::uint32_t shape);
  std::vector<double> times(std::uint32_t shape, std::size_t count, double raster_s);
  [[noreturn]] void refuse(const std::string& why) const;

  const Sequence& sequence_;
  std::size_t made_ = 0;
  std::map<std::array<std::uint32_t, 3>, PulseShape> pulses_;  // by magnitude, phase and times
};

}  // namespace echotrain::protocol::pulseq
