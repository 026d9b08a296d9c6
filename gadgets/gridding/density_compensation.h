// Weights each sample of non-Cartesian readouts by the k-space it stands for.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/shared/over_planes.h"
#include "gadgets/shared/trajectory_store.h"

namespace echotrain {

/// Positions come from the data's trajectory, in the pipeline's `trajectory_unit`. Samples beyond 0.5005 cycles/pixel
/// on an axis are dropped with a warning; a scan in which most are is refused, naming the unit it is likely in.
///
/// A frame that repeats a trajectory met before, in this scan or in one with the same header, is given in parts as its
/// readouts come, each compared with what was expected; so is one whose weights do not depend on readouts still to
/// come. Other frames are given whole, at their end. Source of the methods: see gadgets/numerics/density/.
class DensityCompensation final : public Gadget<Readouts, Samples> {
 public:
  struct Options {
    std::string method = "ramp";
    std::string share = "gaps";
    std::string normalize = "none";
    std::int64_t iterations = 10;
  };
  static constexpr std::string_view kName = "density_compensation";
  static constexpr std::string_view kSummary =
      "Weights each sample of non-Cartesian readouts by the k-space it stands for.";
  static Parameters<Options> parameters();
  static Delivery delivery(const Options& options) {
    return weights_per_readout(options, true) ? Delivery::windows : Delivery::parts;
  }

  /// `planes`: readouts are those of a stack's planes.
  explicit DensityCompensation(Options options, bool planes = false) : options_(std::move(options)), planes_(planes) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<Samples>& emit) override;

 private:
  struct Space {
    int dims = 2;
    std::array<double, 3> to_cycles_per_pixel{1, 1, 1};
    std::array<double, 3> matrix{};
    std::array<double, 3> pixel_m{};
    std::array<double, 3> voxel_ratio{1, 1, 1};  // image voxel / encoded voxel
  };
  /// A trajectory and its weights where this session computes.
  struct Known {
    std::shared_ptr<const KnownTrajectory> trajectory;
    Array<float> weights;  // uploaded when first used
  };
  /// Sample positions and weights of some readouts.
  struct Weighted {
    std::shared_ptr<SamplePositions> positions;
    std::int64_t dropped = 0;  // samples
    double largest = 0;        // component of a position, in the data's numbers
  };
  /// A frame that is not whole yet.
  struct Open {
    std::vector<Readouts> batches;  // so that the frame can be given whole
    std::int64_t readouts = 0;
    std::shared_ptr<const KnownTrajectory> expected;  // the frame has followed it so far
    std::int64_t given = 0;                           // samples given in parts
    bool in_parts = false;
    double weights_sum = 0;
    std::int64_t dropped = 0;
    double largest = 0;
  };
  void check(const Readouts& readouts, const Space& space) const;
  static bool weights_per_readout(const Options& options, bool counted);
  void give_part(Open& open, const Readouts& readouts, const Emit<Samples>& emit);
  void give_whole(const Open& open, const std::shared_ptr<const Frame>& frame, const Emit<Samples>& emit);
  void give_moved(const Readouts& readouts, const Emit<Samples>& emit);
  std::shared_ptr<const KnownTrajectory> expect(const Readouts& first) const;
  Known& known_for(const std::vector<Readouts>& batches, const Frame& frame);
  Known& remember(std::shared_ptr<const KnownTrajectory> trajectory, bool is_new, bool may_recur);
  Weighted weigh(numerics::HostView<const float> raw, std::int64_t per_readout, const Frame& frame);
  std::vector<float> computed_weights(numerics::HostView<const double> coordinates, const std::vector<bool>& unusable,
                                      const Frame& frame);
  const std::vector<float>& spoke_weights(numerics::HostView<const double> coordinates, double k_max);
  static std::vector<bool> outside(const std::vector<double>& coordinates, const Space& space, std::int64_t& dropped,
                                   double& largest);
  void judge_dropped(std::int64_t dropped, std::int64_t total, double largest, const Space& space);
  void warn_of_dropped(std::int64_t dropped, std::int64_t total);
  static std::string likely_unit(double largest, const Space& space);

  Options options_;
  bool planes_;
  Scan* scan_ = nullptr;
  std::string key_;  // of the store
  std::vector<Space> spaces_;
  std::map<std::uint64_t, Open> open_;
  std::vector<Known> known_;  // most recent first, bounded
  std::size_t stored_ = 0;
  bool warned_ = false;  // of dropped samples

  // A readout's distances from the centre, and the weights that they give.
  std::vector<double> template_radii_;
  std::vector<float> template_weights_;
};

using DensityCompensationOfPlanes = OverPlanes<DensityCompensation>;

}  // namespace echotrain
