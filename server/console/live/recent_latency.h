// The recent latency is the delays of the last minute's images, second by second.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "server/base/clock.h"

namespace echotrain::server {

/// Holds delays by the second in which they were added, of each second the newest kMostOfSecond. Thread-safe.
class RecentLatency {
 public:
  static constexpr std::size_t kSeconds = 60, kMostOfSecond = 1024;

  void add(float ms, Clock::time_point now = Clock::now());

  struct Spread {
    std::uint64_t count = 0;
    float p50 = 0, p99 = 0;  ///< 0 without values
  };
  struct Strip {
    Spread all;
    std::array<Spread, kSeconds> seconds;  ///< the oldest first; the last one is the second that runs
  };
  Strip strip(Clock::time_point now = Clock::now()) const;

 private:
  struct Second {
    std::int64_t second = -1;  // of the clock; -1: never used
    std::uint64_t count = 0;
    std::vector<float> values;
  };
  static std::int64_t second_of(Clock::time_point time);

  mutable std::mutex mutex_;
  std::array<Second, kSeconds> seconds_;
};

}  // namespace echotrain::server
