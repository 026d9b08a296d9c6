// What a spike in one frame leaves to the frames after it: nothing.
#pragma once

#include <atomic>
#include <memory>

#include "gadgets/api/scan.h"
#include "gadgets/numerics/layout/running_mean.h"
#include "gadgets/numerics/solver/fixed_cg.h"

namespace echotrain {

/// Frames of one place, told apart from those that are unlike them (numerics::FrameLikeness). Waits for no device but
/// at the scan's end.
class LikeFrames {
 public:
  /// Of frames that all have the middle of k-space: objects and contrasts do not change by so much from one to the
  /// next.
  static constexpr double kMostUnlikeSamples = 32;

  /// `most`: how many times as large as usual, or as small, frames may be.
  LikeFrames(Scan& scan, double most);
  /// The next frame's F^H W d. `share`: that it has in means if it is like those before.
  void take(numerics::DeviceView<const numerics::cfloat> right, double share);
  /// Adds what the frame brings, in the share that take() found.
  void add_to_mean(numerics::DeviceView<const numerics::cfloat> next, numerics::DeviceView<numerics::cfloat> mean);
  /// The solver forgets the image of the frame before where this one must not begin with it.
  void forget(numerics::FixedCg& solver);
  /// Warns, once in a scan, of frames that are unlike the others. Called behind each frame; on CUDA it tells of them
  /// some later.
  void tell();
  /// The same of all frames, at the scan's end.
  void tell_at_end();

 private:
  void warn();

  Scan& scan_;
  const double most_;
  Array<double> power_;                   // [1]
  Array<numerics::FrameLikeness> frame_;  // [1]
  std::shared_ptr<std::atomic<int>> unlike_ = std::make_shared<std::atomic<int>>(0);
  int frames_ = 0;
};

}  // namespace echotrain
