// DensityCompensation weights each sample of non-Cartesian readouts by the k-space it stands for.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/gridding/density_options.h"
#include "gadgets/gridding/density_weights.h"
#include "gadgets/gridding/dropped_samples.h"
#include "gadgets/gridding/known_trajectories.h"
#include "gadgets/gridding/sample_space.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/shared/per_plane.h"

namespace echotrain {

/// Positions come from the data's trajectory, in the pipeline's `trajectory_unit`. Samples beyond 0.5005 cycles/pixel
/// on an axis are dropped with a warning; a scan in which most are dropped is refused, and the error names the likely
/// unit.
///
/// A frame that repeats a known trajectory, of this scan or of one with the same header, is given in parts as its
/// readouts come, each compared with the expected one; so is a frame whose weights do not depend on later readouts.
/// Other frames are given whole, at their end. Source of the methods: see gadgets/numerics/mri/density/.
class DensityCompensation final : public Gadget<Readouts, Samples> {
 public:
  using Options = DensityOptions;
  static constexpr std::string_view kName = "density_compensation";
  static constexpr std::string_view kSummary =
      "Weights each sample of non-Cartesian readouts by the k-space it stands for.";
  static Parameters<Options> parameters();
  static Delivery delivery(const Options& options) {
    return weights_per_readout(options, true) ? Delivery::windows : Delivery::parts;
  }

  /// `planes`: the readouts are those of a stack's planes.
  explicit DensityCompensation(Options options, bool planes = false)
      : options_(std::move(options)), planes_(planes), weights_(options_) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<Samples>& emit) override;

 private:
  /// A frame that is not whole yet.
  struct Open {
    std::vector<Readouts> batches;  // kept so that the frame can be given whole; arrays pay for
                                    // themselves
    std::int64_t readouts = 0;
    std::shared_ptr<const KnownTrajectory> expected;  // the frame has followed it so far
    std::int64_t given = 0;                           // samples given in parts
    bool in_parts = false;
    double weights_sum = 0;
    std::int64_t dropped = 0;
    double largest = 0;
    SampleTiming timing;
  };
  void check(const Readouts& readouts, const SampleSpace& space) const;
  static bool weights_per_readout(const Options& options, bool counted);
  void give_part(Open& open, const Readouts& readouts, const Emit<Samples>& emit);
  void give_whole(const Open& open, const std::shared_ptr<const Frame>& frame, const Emit<Samples>& emit);
  void give_moved(const Readouts& readouts, const Emit<Samples>& emit);
  KnownTrajectories::Known& known_for(const std::vector<Readouts>& batches, const Frame& frame);
  KnownTrajectories::Known& remember(std::shared_ptr<const KnownTrajectory> trajectory, bool is_new, bool may_recur);

  Options options_;
  bool planes_;
  Scan* scan_ = nullptr;
  std::vector<SampleSpace> spaces_;
  KnownTrajectories known_;
  DensityWeights weights_;
  DroppedSamples dropped_;
  std::map<std::uint64_t, Open> open_;
};

using DensityCompensationOfPlanes = PerPlane<DensityCompensation>;

}  // namespace echotrain
