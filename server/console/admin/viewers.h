// A viewer of the live page gets images as small as its link needs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "server/base/clock.h"
#include "server/metrics/gpu_use.h"
#include "server/session/environment.h"

namespace echotrain::server {

/// Measures each viewer's link by how long its images take to leave. All members are for the admin port's strand.
class Viewers {
 public:
  explicit Viewers(std::size_t most) : most_(most) {}

  /// Returns a number for one more viewer; nothing when there are too many.
  std::optional<std::uint64_t> enter();
  void leave(std::uint64_t viewer) { viewers_.erase(viewer); }
  std::size_t count() const { return viewers_.size(); }

  /// Returns by how much images for this viewer are made smaller along x and y: 1, 2, 4 or 8. 1 for unknown viewers.
  int shrink(std::uint64_t viewer) const;
  /// Notes the time that an image took to go out. More than kSlow makes the next ones smaller; kCalm in a row of less
  /// than kFast make them larger.
  void sent(std::uint64_t viewer, std::chrono::milliseconds took);
  static constexpr std::chrono::milliseconds kSlow{200}, kFast{25};
  static constexpr int kCalm = 8, kMostShrink = 8;

 private:
  struct Viewer {
    int shrink = 1, calm = 0;
  };
  const std::size_t most_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Viewer> viewers_;
};

/// The server and its scans as the page shows them, as JSON. It is made anew at most every kStateAge, for all viewers
/// together.
class LiveState {
 public:
  static constexpr std::chrono::milliseconds kStateAge{200};
  const std::string& text(const Environment& environment);

 private:
  GpuUse gpu_use_;
  std::string text_;
  Clock::time_point made_{};
};

}  // namespace echotrain::server
