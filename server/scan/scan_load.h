// The load of a scan is the share of time in which it computes.
#pragma once

#include <mutex>

#include "server/base/clock.h"

namespace echotrain::server {

/// The share of the last second (less while the scan is young; older times count less and less, by an exponential) in
/// which a scan computed: its thread, or its images from the last readout until their pixels were complete, whichever
/// is more. No device is asked. Thread-safe.
class ScanLoad {
 public:
  /// The load that a scan counts as before anything is known of it.
  static constexpr double kNew = 1.0 / 3;

  explicit ScanLoad(Clock::time_point now) : born_(now), thread_{now}, images_{now} {}

  /// Says that the scan's thread begins to compute, or ends.
  void begin(Clock::time_point now);
  void end(Clock::time_point now);
  /// Says that an image was in work between these times.
  void image(Clock::time_point taken, Clock::time_point complete);
  /// Returns the load, 0 to 1.
  double share(Clock::time_point now) const;
  Clock::time_point born() const { return born_; }

 private:
  struct Mean {
    Clock::time_point until;  // what is before is in the value
    double value = kNew;
  };
  void advance(Mean& mean, Clock::time_point to, bool busy) const;

  const Clock::time_point born_;
  mutable std::mutex mutex_;
  bool computing_ = false;
  Mean thread_, images_;
};

}  // namespace echotrain::server
