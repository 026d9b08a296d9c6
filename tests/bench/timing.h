// The timing is a median of times on the host's clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace echotrain::bench {

inline double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The median of `repetitions` times of `work`, which waits for what it starts, after three that do not count.
/// `before`: called before each, and not timed.
inline double median_seconds(
    int repetitions, const std::function<void()>& work, const std::function<void()>& before = [] {}) {
  constexpr int kWarmUp = 3;
  std::vector<double> times;
  for (int i = 0; i < repetitions + kWarmUp; ++i) {
    before();
    const double seconds = seconds_of(work);
    if (i >= kWarmUp) times.push_back(seconds);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace echotrain::bench
