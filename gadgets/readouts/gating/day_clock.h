// A DayClock turns time stamps that begin anew at midnight into continuous times.
#pragma once

#include <cstdint>

namespace echotrain {

/// Scanners count ticks since midnight. A stamp that lies more than half a day before the last one belongs to the day
/// after it, and one from before midnight may still come then. One clock serves all senders of stamps, so that readouts
/// and waveforms stay in step.
class DayClock {
 public:
  explicit DayClock(double tick_ms) : tick_ms_(tick_ms) {}

  /// The time of a stamp [ms]; on the first day, stamp times tick.
  double ms(std::uint32_t stamp) {
    const double within = stamp * tick_ms_;
    double time = within + begin_ms_;
    if (begun_ && time < last_ms_ - kDayMs / 2) {
      begin_ms_ += kDayMs;
      time += kDayMs;
    } else if (time > last_ms_ + kDayMs / 2 && begin_ms_ > 0) {
      return time - kDayMs;
    }
    begun_ = true;
    return last_ms_ = time;
  }

 private:
  static constexpr double kDayMs = 86400e3;
  double tick_ms_, begin_ms_ = 0, last_ms_ = 0;
  bool begun_ = false;
};

}  // namespace echotrain
