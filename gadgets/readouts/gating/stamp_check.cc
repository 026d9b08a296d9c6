#include "gadgets/readouts/gating/stamp_check.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace echotrain {
namespace {

constexpr std::int64_t kMostAtOnce = 2;
constexpr double kLongestStepMs = 100;  // shorter than any interval between beats that a stamp is sure to fall in
constexpr double kStretchMs = 500, kMostWrong = 0.1;
constexpr std::int64_t kWrongStretches = 3;

}  // namespace

std::string StampCheck::add(const protocol::AcquisitionHeader& head) {
  const std::uint32_t stamp = head.physiology_time_stamp[static_cast<std::size_t>(options_.stamp)];
  const Moment now{head.acquisition_time_stamp * options_.tick_ms, stamp * options_.stamp_tick_ms};
  if (readouts_++ == 0) first_stamp_ = stamp;
  last_stamp_ = stamp;
  all_the_same_ = all_the_same_ && stamp == first_stamp_;
  const bool falls = now.since_ms < last_.since_ms;
  last_ = now;
  if (!falls) return rose(now);
  counted_ = now;
  return fell(head.acquisition_time_stamp);
}

std::string StampCheck::fell(std::uint32_t time_stamp) {
  const double time_ms = time_stamp * options_.tick_ms;
  at_once_ = time_ms == std::exchange(last_fall_ms_, time_ms) ? at_once_ + 1 : 0;
  if (at_once_ < kMostAtOnce) return "";
  return fmt::format(
      "physiology_time_stamp[{}] tells of several heartbeats while acquisition_time_stamp stays {}; readouts need "
      "both, "
      "or `beats: ecg`",
      options_.stamp, time_stamp);
}

std::string StampCheck::rose(const Moment& now) {
  const double step = now.time_ms - counted_.time_ms;
  if (step == 0 && readouts_ > 1) return "";
  const Moment before = std::exchange(counted_, now);
  const bool written = now.since_ms > 0 || before.since_ms > 0;
  if (readouts_ < 2 || !written || !(step > 0 && step <= kLongestStepMs)) return "";
  stretch_.time_ms += step;
  stretch_.since_ms += now.since_ms - before.since_ms;
  if (stretch_.time_ms < kStretchMs) return "";
  const Moment stretch = std::exchange(stretch_, {});
  if (std::abs(stretch.since_ms - stretch.time_ms) <= kMostWrong * stretch.time_ms) {
    wrong_stretches_ = 0;
    wrong_ = {};
    return "";
  }
  wrong_.time_ms += stretch.time_ms;
  wrong_.since_ms += stretch.since_ms;
  if (++wrong_stretches_ < kWrongStretches) return "";
  if (wrong_.since_ms == 0)
    return fmt::format(
        "physiology_time_stamp[{}] stays {} while acquisition_time_stamp goes on, so that it does not count from an R "
        "wave; name the one that does (stamp: 0, 1 or 2), or take `beats: ecg`",
        options_.stamp, last_stamp_);
  return fmt::format(
      "physiology_time_stamp[{}] rises by {:.2f} ms in each millisecond of acquisition_time_stamp, so that one of them "
      "has another unit: look at stamp_tick_ms ({:g}) and tick_ms ({:g})",
      options_.stamp, wrong_.since_ms / wrong_.time_ms, options_.stamp_tick_ms, options_.tick_ms);
}

std::string StampCheck::no_interval(std::size_t beats) const {
  if (readouts_ > 1 && all_the_same_)
    return fmt::format(
        "physiology_time_stamp[{}] is {} in all {} readouts{}; name the stamp that counts from the R wave (stamp: 0, 1 "
        "or 2), or take `beats: ecg`",
        options_.stamp, first_stamp_, readouts_, first_stamp_ == 0 ? ", which nobody wrote" : "");
  return fmt::format(
      "found {} heartbeats in physiology_time_stamp[{}] of the readouts, which make no interval; look at its "
      "parameters "
      "stamp, stamp_tick_ms ({:g}) and min_interval_ms, or take `beats: ecg`",
      beats, options_.stamp, options_.stamp_tick_ms);
}

}  // namespace echotrain
