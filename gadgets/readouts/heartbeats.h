// Heartbeats finds the times of heartbeats, from the ECG that comes with a scan or from the stamps of its readouts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/data/messages.h"

namespace echotrain {

/// Finds the triggers of an ECG (ISMRMRD waveform_id 0) as its messages come, in either of two ways:
///
/// - From a trigger channel, where the sender has one: each nonzero sample after a zero one is a trigger.
/// - From the R waves of a lead: a trigger is the farthest sample from the baseline of each run of samples that are
///   farther from it than 0.6 times the farthest of the last two seconds. The baseline is the median of these two
///   seconds; both are computed anew every quarter of a second. Either polarity works. Triggers of the first two
///   seconds are therefore known only when these are over.
///
/// Either way, a trigger less than `min_interval_ms` after another belongs to the same beat.
/// Times are milliseconds on the clock of the readouts: time_stamp times `tick_ms`. Within messages, and between
/// messages without a gap, the sample time counts instead, as a tick is coarser.
class Heartbeats {
 public:
  struct Options {
    int trigger_channel = -1;  ///< -1: triggers come from the R waves
    int lead = 0;
    double min_interval_ms = 60;
    double tick_ms = 2.5;
  };
  explicit Heartbeats(const Options& options) : options_(options) {}

  /// Finds the trigger channel that an ISMRMRD header's waveformInformation names for waveform_id 0, or -1.
  static int trigger_channel(const std::string& header_xml);

  /// Adds samples. Messages of other waveforms, and those without the channel, are left out. Returns true if triggers
  /// were found.
  bool add(const protocol::Waveform& waveform) { return add(waveform, waveform.head.time_stamp * options_.tick_ms); }
  /// Adds samples of which the first was taken at `stamped_ms`.
  bool add(const protocol::Waveform& waveform, double stamped_ms);
  /// Adds a readout acquired at `time_ms`, with the R wave `since_ms` before it (ISMRMRD's physiology_time_stamp). A
  /// zero after a zero, and a zero at the scan's first readout, is an unset stamp. Returns true if a trigger was found.
  bool add_stamp(double time_ms, double since_ms);
  /// Ends the samples: finds the triggers of a scan shorter than two seconds. Returns true if there were any.
  bool finish();

  const std::vector<double>& triggers() const { return triggers_; }  ///< [ms], ascending
  std::uint64_t samples() const { return samples_; }                 ///< number in the ECG so far

 private:
  struct Sample {
    double time_ms;
    float value;
  };
  std::size_t window_size() const;  // samples of two seconds
  void next(const Sample& sample);
  void look(const Sample& sample);
  void threshold();
  void trigger(double time_ms);

  Options options_;
  std::vector<double> triggers_;
  double last_since_ms_ = 0;  // value of the last readout with a stamp
  std::uint64_t samples_ = 0;
  double next_time_ms_ = 0;
  double sample_ms_ = 0;

  // Holds the trigger channel's last value, or the last two seconds of the lead, a ring once full.
  float last_value_ = 1;  // a channel that begins high has not risen
  std::vector<Sample> window_;
  std::size_t oldest_ = 0, since_threshold_ = 0;
  float baseline_ = 0, least_ = 0;
  Sample peak_{0, 0};  // peak of the current run; its value is the distance from the baseline, 0 outside runs
};

}  // namespace echotrain
