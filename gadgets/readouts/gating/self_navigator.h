// Breathing, as the centre of k-space tells of it.
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

/// Finds where in the breath each moment of a scan lies. Coils see the body move: the magnitudes of the centre of
/// k-space, one per coil, rise and fall with breathing. They are averaged in steps of a 20th of the shortest breath,
/// made free of their mean and slope, and band-passed (a Hann window of 1 / low_hz to either side). The signal is the
/// sum over the coils whose energy within the band is largest beside that outside it, which is heartbeat and noise; of
/// more than 32 coils, over the 32 whose own share within the band is largest.
/// Sources: Larson et al., "Self-gated cardiac cine MRI", MRM 51:93, 2004 (the centre's magnitude); Feng et al.,
/// "XD-GRASP", MRM 75:775, 2016 (a component of all coils, 0.1 to 0.5 Hz); for its weights
/// gadgets/readouts/gating/band_weights.h.
///
/// The scan is judged stretch by stretch, 0.5 / low_hz each, from a window that reaches 1 / low_hz beyond either end:
/// the window is all that is kept. The signal keeps its direction from one window to the next. In the first one, it
/// rises towards inspiration: the body lingers at expiration, so that the signal's third moment is positive, of which
/// the mean of the squared signal times the unfiltered one is the part that follows breathing.
///
/// Times are milliseconds and ascend.
class SelfNavigator {
 public:
  struct Options {
    double low_hz = 0.1, high_hz = 0.5;
  };
  /// Whether a stretch of the scan could be judged, and if not, why.
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

  /// Needs 0 < low_hz < high_hz.
  SelfNavigator(const numerics::ThreadPool& threads, const Options& options);

  /// A readout that was acquired at `time_ms` wants to be judged.
  void expect(double time_ms);
  /// The samples of a readout at the centre of k-space, one per coil; as many each time.
  void add(double time_ms, std::span<const std::complex<float>> centre);
  /// Whether judge() has something to judge.
  bool ready(double now_ms) const;
  /// Judges the stretches whose windows are over at `now_ms`; at infinity, all.
  void judge(double now_ms);
  /// Empty: not judged yet, or more than eight stretches before the last call of judge().
  std::optional<State> state(double time_ms) const;
  /// What is kept takes about as much.
  std::uint64_t bytes() const;

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
  const std::int64_t stretch_;  // bins
  const double widest_step_;    // bins between samples of the centre
  std::vector<double> taps_;    // of the band-pass, from its middle
  Bins bins_;
  std::set<std::int64_t> open_;                        // stretches that wait to be judged
  std::map<std::int64_t, std::vector<State>> states_;  // of stretches, per bin
  Signal last_;                                        // of the last window
};

}  // namespace echotrain
