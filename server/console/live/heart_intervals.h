// The heart intervals of a scan follow from the stamps of its readouts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/data/messages.h"

namespace echotrain::server {

/// Intervals between heartbeats [ms]: each readout says when it was acquired and how long before it the R wave was
/// (acquisition_time_stamp and physiology_time_stamp[0], both in ticks of 2.5 ms, as ISMRMRD's converters write them).
/// Not thread-safe.
class HeartIntervals {
 public:
  static constexpr std::size_t kMost = 128;  ///< the newest are kept
  static constexpr double kTick_ms = 2.5;

  void add(const protocol::AcquisitionHeader& head);
  std::vector<float> intervals() const;  ///< the oldest first
  std::uint64_t beats() const { return beats_; }

 private:
  std::array<float, kMost> ring_{};
  std::uint64_t count_ = 0, beats_ = 0;
  std::int64_t last_beat_ = 0;  // [tick]
  std::uint32_t before_ = 0;    // the stamp of the readout before
};

}  // namespace echotrain::server
