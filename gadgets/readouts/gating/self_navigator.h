// A SelfNavigator derives breathing from the centre of k-space (self-gating).
#pragma once

#include <complex>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain {

/// Finds the position in the breath of each moment of a scan. Coils see the body move: the magnitudes of the centre of
/// k-space, one per coil, rise and fall with breathing. They are averaged in steps of a 20th of the shortest breath,
/// freed of mean and slope, and band-passed (a Hann window of 1 / low_hz to either side). The signal is the sum over
/// the coils whose energy within the band is largest beside that outside it, which is heartbeat and noise; of more than
/// 32 coils, over the 32 whose own share within the band is largest.
/// Sources: Larson et al., "Self-gated cardiac cine MRI", MRM 51:93, 2004 (the centre's magnitude); Feng et al.,
/// "XD-GRASP", MRM 75:775, 2016 (a component of all coils, 0.1 to 0.5 Hz); for its weights
/// gadgets/readouts/gating/band_weights.h.
///
/// The scan is judged stretch by stretch, 0.5 / low_hz each, from a window that reaches 1 / low_hz beyond either end:
/// only the window is kept. The signal keeps its direction from one window to the next. In the first one, it rises
/// towards inspiration: the body lingers at expiration, so that the signal's third moment is positive; it is taken as
/// the mean of the squared signal times the unfiltered one, the part that follows breathing.
///
/// Times are milliseconds and ascend.
class SelfNavigator {
 public:
  struct Options {
    double low_hz = 0.1, high_hz = 0.5;
  };
  /// The verdict on a stretch of the scan: judged, or the reason why not.
  enum class Verdict {
    told,
    without_centre,  ///< no readout passed the centre of k-space
    too_short,       ///< readouts span less than 1 / low_hz
    too_seldom,      ///< the centre comes less often than twice in the shortest breath
    unchanging       ///< the centre does not change at the speed of breathing
  };
  struct State {
    Verdict verdict = Verdict::without_centre;
    double signal = 0;    ///< in units of its standard deviation within the window; rises towards inspiration
    double position = 0;  ///< 0 .. 1: the share of the window that lies nearer to expiration
  };

  /// Requires 0 < low_hz < high_hz.
  SelfNavigator(const numerics::ThreadPool& threads, const Options& options);

  /// Expects an answer for a readout acquired at `time_ms`.
  void expect(double time_ms);
  /// Adds the samples of a readout at the centre of k-space, one per coil, always as many.
  void add(double time_ms, std::span<const std::complex<float>> centre);
  /// True if judge() has stretches to judge.
  bool ready(double now_ms) const;
  /// Judges the stretches whose windows are over at `now_ms`; at infinity, all stretches.
  void judge(double now_ms);
  /// The state at a time; empty: not judged yet, or more than eight stretches before the last call of judge().
  std::optional<State> state(double time_ms) const;

 private:
  struct Bin {
    std::vector<double> sum;  // per coil
    std::int64_t count = 0;
  };
  using Bins = std::map<std::int64_t, Bin>;
  /// The signal at consecutive bins.
  struct Signal {
    std::int64_t first = 0;
    std::vector<double> values;
  };
  std::int64_t bin_at(double time_ms) const;
  std::int64_t stretch_at(double time_ms) const;
  void judge_stretch(std::int64_t stretch);
  Verdict find_signal(Bins::const_iterator from, Bins::const_iterator to, Signal& signal) const;
  std::vector<double> column(Bins::const_iterator from, Bins::const_iterator to, std::size_t coil) const;
  std::vector<double> band_passed(const std::vector<double>& values) const;
  void orient(Signal& signal, const std::vector<double>& unfiltered) const;

  const numerics::ThreadPool& threads_;
  const double bin_ms_;
  const std::int64_t half_;     // bins in 1 / low_hz
  const std::int64_t stretch_;  // bins of a stretch
  const double widest_step_;    // widest distance of samples of the centre, in bins
  std::vector<double> taps_;    // taps of the band-pass, from its middle
  Bins bins_;
  std::set<std::int64_t> open_;                        // stretches that wait to be judged
  std::map<std::int64_t, std::vector<State>> states_;  // states of stretches, per bin
  Signal last_;                                        // signal of the last window
};

}  // namespace echotrain
