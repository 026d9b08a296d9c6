#include "server/console/live/recent_latency.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace echotrain::server {

namespace {

/// The value that a fraction `q` does not exceed (nearest rank).
float ranked(const std::vector<float>& sorted, double q) {
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

RecentLatency::Spread spread_of(std::vector<float>& values, std::uint64_t count) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {count, ranked(values, 0.5), ranked(values, 0.99)};
}

}  // namespace

std::int64_t RecentLatency::second_of(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

void RecentLatency::add(float ms, Clock::time_point now) {
  const std::int64_t second = second_of(now);
  const std::scoped_lock lock(mutex_);
  Second& slot = seconds_[static_cast<std::size_t>(second) % kSeconds];
  if (slot.second != second) {
    slot.second = second;
    slot.count = 0;
    slot.values.clear();
  }
  if (slot.values.size() < kMostOfSecond)
    slot.values.push_back(ms);
  else
    slot.values[slot.count % kMostOfSecond] = ms;
  ++slot.count;
}

RecentLatency::Strip RecentLatency::strip(Clock::time_point now) const {
  const std::int64_t last = second_of(now), first = last - static_cast<std::int64_t>(kSeconds) + 1;
  Strip strip;
  std::vector<float> all, values;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < kSeconds; ++i) {
    {
      const std::scoped_lock lock(mutex_);
      const std::int64_t second = first + static_cast<std::int64_t>(i);
      const Second& slot = seconds_[static_cast<std::size_t>(second) % kSeconds];
      if (slot.second != second) continue;
      values = slot.values;
      strip.seconds[i].count = slot.count;
    }
    count += strip.seconds[i].count;
    all.insert(all.end(), values.begin(), values.end());
    strip.seconds[i] = spread_of(values, strip.seconds[i].count);
  }
  strip.all = spread_of(all, count);
  return strip;
}

}  // namespace echotrain::server
