// A simulated heart beats, and has an ECG.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/data/messages.h"

namespace echotrain::client {

inline constexpr double kTickMs = 2.5;  ///< unit of time stamps

/// The ways in which the phase of a beat follows its length. linear: all of it is stretched. weissler: systole takes
/// 546 ms - 2.1 ms times the beats a minute (0.2 to 0.8 of the interval), and systole and diastole take the shares of
/// the phase that they have in the heart's first interval. Source: Weissler, Harris, Schoenfeld, Circulation 37:149,
/// 1968.
enum class Systole { linear, weissler };

/// The beats of a heart. The first beat comes at 0.4 of the mean interval. Intervals deviate normally from the mean,
/// with a standard deviation of `jitter` times the mean, cut at 3 standard deviations. The same seed gives the same
/// beats.
class Heart {
 public:
  /// rate: beats per minute.
  Heart(double rate, double jitter, std::uint64_t seed, Systole systole = Systole::linear);
  /// A heart that beats when it is said to, three times or more, and then regularly in the mean interval. Beats that
  /// come early are weak.
  Heart(std::vector<double> beats_ms, std::uint64_t seed, Systole systole);

  double mean_interval_ms() const { return 60000 / rate_; }
  double beat_ms(std::size_t i);       ///< when beat i, from 0, begins
  std::size_t beats_until(double ms);  ///< how many beats have begun at that time
  double phase(double ms);  ///< 0 .. 1 within the interval at that time; before the first beat, within one as long as
                            ///< the mean
  /// Returns how strongly the heart contracts in the beat at that time: 1, or, where it is said when the heart beats
  /// and the interval before this beat's R wave is shorter than 0.8 of the mean, that interval over 0.8 of the mean:
  /// the chambers have not filled.
  double strength(double ms);
  /// Returns the ECG of all beats up to `until_ms`: ISMRMRD waveforms with waveform_id 0, 1 kHz, 50 samples each. Four
  /// leads have P, QRS and T waves and noise; channel 4 is 1 where a beat begins.
  std::vector<protocol::Waveform> ecg(double until_ms);
  static constexpr int kTriggerChannel = 4;

 private:
  double rate_, jitter_;
  std::uint64_t seed_;
  Systole systole_;
  bool told_ = false;  // it is said when the heart beats
  std::vector<double> beats_;
};

}  // namespace echotrain::client
