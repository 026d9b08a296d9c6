// A StampCheck tests whether stamps of readouts can be times since an R wave.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/data/messages.h"

namespace echotrain {

/// Checks physiology_time_stamp[stamp] of one readout after the other, against acquisition_time_stamp.
class StampCheck {
 public:
  struct Options {
    std::int64_t stamp = 0;
    double tick_ms = 2.5;        ///< unit of acquisition_time_stamp
    double stamp_tick_ms = 2.5;  ///< unit of physiology_time_stamp
  };
  explicit StampCheck(const Options& options) : options_(options) {}

  /// Returns the fault of the stamps so far, and advice; empty if there is none. Stamps are wrong if they show several
  /// heartbeats while the readouts' time stands still, or if, between heartbeats, they have risen by 0.9 to 1.1 of the
  /// readouts' time in none of three stretches of half a second.
  std::string add(const protocol::AcquisitionHeader& head);
  /// Returns the fault of the stamps of a scan in which `beats` R waves make no interval.
  std::string no_interval(std::size_t beats) const;

 private:
  struct Moment {
    double time_ms = 0, since_ms = 0;
  };
  std::string fell(std::uint32_t stamp);
  std::string rose(const Moment& now);

  Options options_;
  Moment last_, counted_;  // the last readout, and the last one at which time had advanced
  std::uint64_t readouts_ = 0;
  std::uint32_t first_stamp_ = 0, last_stamp_ = 0;
  bool all_the_same_ = true;
  std::int64_t at_once_ = 0;  // falls while the readouts' time stood still
  double last_fall_ms_ = -1;
  Moment stretch_, wrong_;  // advance of time and stamp: in the current stretch, in wrong ones
  std::int64_t wrong_stretches_ = 0;
};

}  // namespace echotrain
