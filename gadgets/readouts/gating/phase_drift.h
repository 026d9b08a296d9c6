// PhaseDrift estimates the drift of the phase of k-space's centre during a scan.
#pragma once

#include <complex>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace echotrain {

/// The field drifts as gradients warm up, and with it the phase of all data at one echo time: by 2 pi TE times the
/// drift in Hz. The centre of k-space, the sum over the whole object, shows this phase alone. Centres are averaged in
/// bins, a 21st of the window each; a bin's phase is that of sum_c b_c conj(a_c), b_c its mean in coil c and a_c that
/// of the first bin, unwrapped from bin to bin. The result is a straight line fitted, by least squares weighted with
/// |sum_c b_c conj(a_c)|, to the bins of the window about a bin: a window as long as a breath or longer averages out
/// breathing and heartbeats. A drift at constant speed is found without bias, at the ends of a scan too. The phase is 0
/// in the first bin, apart from noise. Source of the principle: Pfeuffer et al., MRM 47:344, 2002 (a navigator's phase
/// removed from the data that follow).
///
/// Times are milliseconds and ascend.
class PhaseDrift {
 public:
  /// `window_ms` must be above 0.
  explicit PhaseDrift(double window_ms);

  /// Adds the samples of a readout at the centre of k-space, one per coil, always as many. Those of the first bin must
  /// not all be 0.
  void add(double time_ms, std::span<const std::complex<float>> centre);
  /// True if judge() has bins to judge.
  bool ready(double now_ms) const;
  /// Fits the bins whose windows are over at `now_ms`; at infinity, all bins.
  void judge(double now_ms);
  /// The phase [rad] beyond the scan's first centres, up to any multiple of pi; empty: not judged yet. Before the first
  /// centre and after the last one, and in gaps, it is that of the nearest earlier bin, or else of the first one; a
  /// window before the first centre, 0. `time_ms` lies at most four windows before the last call of judge().
  std::optional<double> phase(double time_ms) const;
  double window_ms() const;

 private:
  struct Bin {
    std::vector<std::complex<double>> sum;  // per coil; empty once the phase is known
    double count = 0;
    double phase = 0, weight = 0;
  };
  struct Line {
    double phase = 0, slope = 0;  // [rad], [rad / bin], at the bin's middle
  };
  std::int64_t bin_at(double time_ms) const;
  void unwrap(std::int64_t before);
  Line fit(std::int64_t bin) const;

  const double bin_ms_;
  std::map<std::int64_t, Bin> bins_;
  std::map<std::int64_t, Line> lines_;           // for bins with a sample or near one
  std::vector<std::complex<double>> reference_;  // per coil: mean of the first bin
  std::optional<std::int64_t> unwrapped_;        // the last bin whose phase is known
  std::int64_t next_ = 0;                        // next bin to judge
  bool begun_ = false;
  double last_phase_ = 0, first_ms_ = 0;
};

}  // namespace echotrain
