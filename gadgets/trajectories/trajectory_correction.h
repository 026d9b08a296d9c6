// TrajectoryCorrection replaces the nominal trajectory by the one that was really played.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/mri/trajectory/girf.h"
#include "gadgets/numerics/mri/trajectory/gradient_delays.h"
#include "gadgets/trajectories/delay_finder.h"
#include "gadgets/trajectories/readout_geometry.h"

namespace echotrain {

/// Moves the positions of non-Cartesian readouts, by one of
///   ring, cross_correlation  delays estimated from the data's first spokes
///   (numerics/mri/trajectory/gradient_delays.h),
///                            separately for each orientation of a slice
///   given                    delays x, y, xy
///   girf                     the gradients' impulse responses, turned into the slice's axes by the directions of heads
/// Delays are rounded to 1/1000 of a sample, so that a scan with the same delays as an earlier one has the same
/// trajectory, and finds its plans.
///
/// Readouts wait, in their order, until the delays of their orientation are known: when `spokes` of them have come that
/// go round the circle, or 13 that do at the end of a frame; after 16 `spokes` readouts at the latest, and at the
/// scan's end, from the spokes so far. No readout waits with `given` and `girf`. The scan pays for waiting readouts.
///
/// In, out: Readouts of non-Cartesian encodings; others, and other kinds, pass by unchanged. Meta attributes of frames:
/// trajectory_correction (the method, or none) and trajectory_delays ("x y xy", samples).
/// With a warning: cross_correlation where spokes do not oppose each other does what ring does; the trajectory is kept
/// where readouts are no spokes, delays cannot be estimated, heads hold no sample time (microseconds, girf) or no
/// directions (girf, where those of the gradients are then taken). Throws ClientError for a scan with only Cartesian
/// encodings, and for unusable responses.
class TrajectoryCorrection final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {
    std::string method = "ring";
    std::int64_t spokes = 64;
    double x = 0, y = 0, xy = 0;
    std::string unit = "samples";
    std::string girf;
  };
  static constexpr std::string_view kName = "trajectory_correction";
  static constexpr std::string_view kSummary =
      "Moves sample positions to where the gradients really led: delays told by spokes, given ones, or a measured "
      "impulse response.";
  static constexpr Delivery kDelivery = Delivery::windows;
  static Parameters<Options> parameters();

  explicit TrajectoryCorrection(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override;
  void finish(End how, const Emit<Readouts>& emit) override;

 private:
  /// The state of an orientation.
  struct State {
    DelayFinder finder;
    std::optional<DelayFinder::Found> found;
  };
  bool estimates() const { return options_.method == "ring" || options_.method == "cross_correlation"; }
  void settle(const Orientation& orientation);
  void release(const Emit<Readouts>& emit);
  void correct(Readouts& readouts);
  numerics::GradientDelays given(const protocol::AcquisitionHeader& head);
  void apply_girf(Readouts& readouts, const TrajectorySpace& space);
  void note(Readouts& readouts) const;

  Options options_;
  Scan* scan_ = nullptr;
  std::vector<TrajectorySpace> spaces_;
  std::map<Orientation, State> states_;
  struct Waiting {
    Readouts readouts;
    Orientation orientation;
  };
  std::deque<Waiting> waiting_;
  std::optional<numerics::Girf> girf_;
  std::map<std::pair<std::int64_t, float>, numerics::GirfFilter> filters_;  // by samples and dwell time
};

}  // namespace echotrain
