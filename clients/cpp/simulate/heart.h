// A heart that beats, and its ECG.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/data/messages.h"

namespace echotrain::client {

inline constexpr double kTickMs = 2.5;  ///< unit of time stamps

/// When a heart beats. The first beat comes at 0.4 of the mean interval. Intervals deviate normally from the mean, with
/// a standard deviation of `jitter` times the mean, cut at 3 standard deviations. The same seed gives the same beats.
class Heart {
 public:
  /// rate: beats per minute.
  Heart(double rate, double jitter, std::uint64_t seed);

  double mean_interval_ms() const { return 60000 / rate_; }
  double beat_ms(std::size_t i);       ///< when beat i, from 0, begins
  std::size_t beats_until(double ms);  ///< how many beats have begun at that time
  double phase(double ms);  ///< 0 .. 1 within the interval at that time; before the first beat, within one as long as
                            ///< the mean
  /// The ECG of all beats up to `until_ms`: ISMRMRD waveforms with waveform_id 0, 1 kHz, 50 samples each. Four leads
  /// have P, QRS and T waves and noise; channel 4 is 1 where a beat begins.
  std::vector<protocol::Waveform> ecg(double until_ms);
  static constexpr int kTriggerChannel = 4;

 private:
  double rate_, jitter_;
  std::uint64_t seed_;
  std::vector<double> beats_;
};

}  // namespace echotrain::client
