// A DelayFinder collects the first spokes of an orientation, until they suffice to estimate the gradient delays.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/mri/trajectory/gradient_delays.h"
#include "gadgets/trajectories/readout_geometry.h"

namespace echotrain {

/// Counts the spokes of the first slice, contrast, phase and set of an orientation; for a stack, those of the plane kz
/// = 0.
class DelayFinder {
 public:
  struct Found {
    std::optional<numerics::GradientDelays> delays;  ///< rounded
    std::string method;                              ///< method that found them
    std::string warning;                             ///< empty: no warning
    std::int64_t spokes = 0;                         ///< number of spokes used
    double mismatch = 0;                             ///< as in numerics::DelayEstimate
  };

  /// `wanted` spokes are enough, if they go round.
  DelayFinder(std::string method, std::int64_t wanted) : method_(std::move(method)), wanted_(wanted) {}

  /// Tests the readouts of a batch, one by one, until there are enough: the result does not depend on the batches.
  void add(const Readouts& readouts, const TrajectorySpace& space);
  /// True if the delays can be estimated now: from the wanted number of spokes or, at the end of a frame, from 13; or
  /// if so many readouts have come that more will not help.
  bool enough(bool frame_ends) const;

  /// Estimates the delays by the method (ring or cross_correlation), or by ring where spokes do not oppose each other.
  /// `held`: all readouts that were added, in their order. Waits for the device, on CUDA.
  Found find(Scan& scan, const TrajectorySpace& space, const std::vector<const Readouts*>& held) const;

 private:
  using Anatomy = std::array<std::uint16_t, 5>;  // encoding, slice, contrast, phase, set
  static Anatomy anatomy_of(const FrameKey& key) { return {key.encoding, key.slice, key.contrast, key.phase, key.set}; }
  bool counts(const Spoke& spoke, const FrameKey& key) const;
  numerics::Spokes with_samples(Scan& scan, const TrajectorySpace& space,
                                const std::vector<const Readouts*>& held) const;

  std::int64_t spokes() const { return static_cast<std::int64_t>(angles_.size()); }
  /// True if spokes go round the half circle without a gap of more than 40 degrees, or, with `opposed`, the whole one.
  bool go_round(bool opposed) const;

  std::string method_;
  std::int64_t wanted_;
  bool full_ = false;  // no more are tested
  std::optional<Anatomy> first_;
  double step_ = 0;             // step of the first spoke
  std::vector<double> angles_;  // angles of spokes that count
  std::int64_t readouts_ = 0;   // readouts tested
};

}  // namespace echotrain
