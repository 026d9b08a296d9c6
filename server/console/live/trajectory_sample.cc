#include "server/console/live/trajectory_sample.h"

#include <algorithm>
#include <utility>

namespace echotrain::server {

namespace {
// A frame of a sliding window may bring few new readouts: a picture is of several such frames.
constexpr std::uint64_t kFew = 16;
// One of the frames that are open at a time is followed. One that never ends does not keep later ones from being shown.
constexpr std::uint64_t kMostOpen = 64;
}  // namespace

TrajectorySample::TrajectorySample(const std::array<double, 3>& scale) : scale_(scale) {
  for (Shown* one : {&whole_, &filling_}) one->points.reserve(kMostReadouts * kPoints * kAxes);
}

/// True if these readouts are of the frame that is followed; follows another one where that has ended.
bool TrajectorySample::follow(const Readouts& readouts) {
  const std::uint64_t frame = readouts.frame->id;
  if (frame != frame_) {
    const bool stale = frame > frame_ + kMostOpen;
    if (following_ && !stale) return false;
    if (!readouts.first && !stale) return false;
    frame_ = frame;
    if (seen_ >= kFew || stale) begin();
  }
  following_ = !readouts.last;
  return true;
}

void TrajectorySample::begin() {
  if (seen_ >= kFew) std::swap(whole_, filling_);
  filling_.points.clear();
  filling_.axes = 0;
  filling_.every = 1;
  seen_ = 0;
}

void TrajectorySample::add(const Readouts& readouts) {
  if (readouts.kind != protocol::ReadoutKind::imaging || !readouts.frame || !follow(readouts) || !readouts.trajectory)
    return;
  const auto& shape = readouts.trajectory.shape();  // [readout, sample, dimension]
  const auto axes = std::min(kAxes, static_cast<std::size_t>(shape[2]));
  if (axes < 2 || shape[1] == 0) return;
  if (filling_.axes != axes) {
    begin();
    filling_.axes = axes;
  }
  const std::size_t size = kPoints * axes;
  for (std::int64_t r = 0; r < shape[0]; ++r, ++seen_) {
    if (seen_ % filling_.every != 0) continue;
    if (filling_.points.size() == kMostReadouts * size) {  // every second one goes
      for (std::size_t i = 1; i < kMostReadouts / 2; ++i)
        std::copy_n(filling_.points.begin() + static_cast<std::ptrdiff_t>(2 * i * size), size,
                    filling_.points.begin() + static_cast<std::ptrdiff_t>(i * size));
      filling_.points.resize(kMostReadouts / 2 * size);
      filling_.every *= 2;
      if (seen_ % filling_.every != 0) continue;
    }
    const float* const from = readouts.trajectory.data() + r * shape[1] * shape[2];
    for (std::size_t p = 0; p < kPoints; ++p) {
      const auto sample = static_cast<std::int64_t>(p) * (shape[1] - 1) / static_cast<std::int64_t>(kPoints - 1);
      for (std::size_t a = 0; a < axes; ++a)
        filling_.points.push_back(
            static_cast<float>(from[sample * shape[2] + static_cast<std::int64_t>(a)] * scale_[a]));
    }
  }
}

}  // namespace echotrain::server
