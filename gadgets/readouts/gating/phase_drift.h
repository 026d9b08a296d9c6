// How the phase of k-space's centre drifts while a scan goes on.
#pragma once

#include <complex>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace echotrain {

/// The field drifts as gradients warm up, and with it the phase of all that is measured at one echo time: by 2 pi TE
/// times the drift in Hz. At the centre of k-space, of which each coil sees the whole object, this phase is seen by
/// itself. Centres are averaged in bins, a 21st of the window each; a bin's phase is that of sum_c b_c conj(a_c), b_c
/// its mean in coil c and a_c that of the first bin, unwrapped from bin to bin. The result is a straight line fitted,
/// by least squares weighted with |sum_c b_c conj(a_c)|, to the bins of the window about a bin: as long as a breath or
/// longer, it leaves out what breathing and heartbeats do. A drift at constant speed is found without bias, at the ends
/// of a scan too. The phase is 0 in the first bin, but for noise. Source of the principle: Pfeuffer et al., MRM 47:344,
/// 2002 (a navigator's phase taken out of the data that follow).
///
/// Times are milliseconds and ascend.
class PhaseDrift {
 public:
  /// Needs window_ms > 0.
  explicit PhaseDrift(double window_ms);

  /// The samples of a readout at the centre of k-space, one per coil; as many each time. Those of the first bin are not
  /// all 0.
  void add(double time_ms, std::span<const std::complex<float>> centre);
  /// Whether judge() has something to judge.
  bool ready(double now_ms) const;
  /// Fits the bins whose windows are over at `now_ms`; at infinity, all.
  void judge(double now_ms);
  /// [rad] beyond the scan's first centres, any multiple of pi; empty: not judged yet. Before the first centre and
  /// after the last one, and in gaps, that of the nearest bin before it, or else the first one; a window before the
  /// first centre, 0. At most four windows before the last call of judge().
  std::optional<double> phase(double time_ms) const;
  double window_ms() const;
  /// What is kept takes about as much.
  std::uint64_t bytes() const;

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
  std::map<std::int64_t, Line> lines_;           // of bins with a sample or near one
  std::vector<std::complex<double>> reference_;  // per coil: mean of the first bin
  std::optional<std::int64_t> unwrapped_;        // the last bin whose phase is known
  std::int64_t next_ = 0;                        // bin to be judged
  bool begun_ = false;
  double last_phase_ = 0, first_ms_ = 0;
};

}  // namespace echotrain
