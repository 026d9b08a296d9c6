// SpikeRejection keeps a spike in one frame from affecting later frames.
#pragma once

#include <atomic>
#include <memory>

#include "gadgets/api/scan.h"
#include "gadgets/numerics/core/layout/running_mean.h"
#include "gadgets/numerics/inverse/solver/fixed_cg.h"

namespace echotrain {

/// Detects outliers among the frames of one series (numerics::FrameLikeness). Waits for no device except at the scan's
/// end.
class SpikeRejection {
 public:
  /// The bound for frames that all have the middle of k-space: objects and contrasts do not change by so much from one
  /// frame to the next.
  static constexpr double kMostUnlikeSamples = 32;

  /// `most`: the largest ratio of a frame's size to the usual one, either way.
  SpikeRejection(Scan& scan, double most);
  /// Takes the next frame's F^H W d. `share`: its share in means if it is like earlier frames.
  void take(numerics::DeviceView<const numerics::cfloat> right, double share);
  /// Adds the frame to the mean, in the share that take() found.
  void add_to_mean(numerics::DeviceView<const numerics::cfloat> next, numerics::DeviceView<numerics::cfloat> mean);
  /// Makes the solver forget the previous frame's image if this one must not begin with it.
  void forget(numerics::FixedCg& solver);
  /// Warns, once in a scan, of frames that are unlike the others. Called after each frame; on CUDA the warning comes
  /// some frames later.
  void tell();
  /// Warns of all frames, at the scan's end.
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
