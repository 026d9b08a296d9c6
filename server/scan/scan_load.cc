#include "server/scan/scan_load.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace echotrain::server {

namespace {
// The length of the mean, and for how long kNew counts as seen.
constexpr double kWindow_s = 1, kPrior_s = 0.1;
double seconds_of(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }
}  // namespace

// While the scan is younger than the window, this is the plain mean since its birth.
void ScanLoad::advance(Mean& mean, Clock::time_point to, bool busy) const {
  if (to <= mean.until) return;
  const double seen = seconds_of(mean.until - born_) + kPrior_s, more = seconds_of(to - mean.until);
  const double young = std::clamp(kWindow_s - seen, 0.0, more);  // of `more`, as a plain mean
  double keep = seen / (seen + young);
  keep *= std::exp(-(more - young) / kWindow_s);
  mean.value = mean.value * keep + (busy ? 1 - keep : 0);
  mean.until = to;
}

void ScanLoad::begin(Clock::time_point now) {
  const std::scoped_lock lock(mutex_);
  advance(thread_, now, computing_);
  computing_ = true;
}

void ScanLoad::end(Clock::time_point now) {
  const std::scoped_lock lock(mutex_);
  advance(thread_, now, computing_);
  computing_ = false;
}

void ScanLoad::image(Clock::time_point taken, Clock::time_point complete) {
  const std::scoped_lock lock(mutex_);
  advance(images_, taken, false);
  advance(images_, complete, true);
}

double ScanLoad::share(Clock::time_point now) const {
  const std::scoped_lock lock(mutex_);
  Mean thread = thread_, images = images_;
  advance(thread, now, computing_);
  advance(images, now, false);
  return std::max(thread.value, images.value);
}

}  // namespace echotrain::server
