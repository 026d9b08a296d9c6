// A trajectory sample holds some readouts of a trajectory, spread over a frame.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gadgets/api/items.h"

namespace echotrain::server {

/// Holds up to kMostReadouts readouts of the newest frame, at equal distances, with kPoints points each. What it holds
/// does not depend on how readouts are batched. Not thread-safe.
class TrajectorySample {
 public:
  static constexpr std::size_t kMostReadouts = 64, kPoints = 48, kAxes = 3;
  static constexpr std::uint64_t kBytes = 2 * kMostReadouts * kPoints * kAxes * sizeof(float);  ///< that one takes

  /// `scale`: cycles/pixel of one unit of the trajectory, x, y, z.
  explicit TrajectorySample(const std::array<double, 3>& scale);

  /// Imaging readouts with a trajectory; others are left out.
  void add(const Readouts& readouts);

  struct Shown {
    std::size_t axes = 0;       ///< 2 or 3; 0: there was no trajectory
    std::uint64_t every = 1;    ///< how many readouts each one stands for
    std::vector<float> points;  ///< [readout, kPoints, axes], cycles/pixel; NaN: a sample that is dropped
  };
  /// The newest frame of which enough has come, or what has come.
  const Shown& shown() const { return whole_.points.empty() ? filling_ : whole_; }

 private:
  bool follow(const Readouts& readouts);
  void begin();

  const std::array<double, 3> scale_;
  Shown whole_, filling_;
  bool following_ = false;              // frame_ has not ended
  std::uint64_t frame_ = 0, seen_ = 0;  // seen_: readouts of `filling_`
};

}  // namespace echotrain::server
