#include "server/console/live/heart_intervals.h"

#include <algorithm>

namespace echotrain::server {

namespace {
// Stamps are rounded: what is this close to a beat is that beat. No heart beats as fast. 60 ms, as Heartbeats has it.
constexpr std::int64_t kSame = 24;     // [tick]
constexpr std::int64_t kPause = 2400;  // [tick]: 6 s without a beat are a pause of the scan, no interval
}  // namespace

void HeartIntervals::add(const protocol::AcquisitionHeader& head) {
  const std::uint32_t since = head.physiology_time_stamp[0];
  const bool written = since != 0 || before_ != 0;  // a zero after a zero is a stamp that nobody wrote
  before_ = since;
  if (!written) return;
  const std::int64_t beat = std::int64_t{head.acquisition_time_stamp} - since, interval = beat - last_beat_;
  // The same beat, or readouts that came out of order; stamps that count since midnight begin anew there.
  if (beats_ > 0 && interval <= kSame && interval > -kPause) return;
  last_beat_ = beat;
  if (++beats_ == 1 || interval > kPause || interval < 0) return;
  ring_[count_++ % kMost] = static_cast<float>(static_cast<double>(interval) * kTick_ms);
}

std::vector<float> HeartIntervals::intervals() const {
  const std::uint64_t kept = std::min<std::uint64_t>(count_, kMost);
  std::vector<float> all;
  for (std::uint64_t i = count_ - kept; i < count_; ++i) all.push_back(ring_[i % kMost]);
  return all;
}

}  // namespace echotrain::server
