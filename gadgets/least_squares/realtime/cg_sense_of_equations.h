// CgSenseOfEquations does real-time parallel imaging, frame by frame, from equations that other gadgets made: Cartesian
// lines, others in each frame.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "gadgets/api/gadget.h"
#include "gadgets/least_squares/realtime/cg_sense_options.h"
#include "gadgets/least_squares/realtime/spike_rejection.h"
#include "gadgets/numerics/inverse/solver/fixed_cg.h"

namespace echotrain {

/// CgSenseRealtime for normal equations: from `encoding`, whose Cartesian lines may change with each frame, or from
/// `fhd`. It solves sum_c |F S_c x - d_c|_W^2 + lambda L |x - x_before|^2 + tikhonov L |x|^2 for each frame, starting
/// from the previous one, by a fixed number of conjugate gradient steps; L = NormalOperator::largest(), 1 for Cartesian
/// lines.
///
/// Where the equations bring maps (`coil_maps`), these are S. Otherwise S comes from a mean of the latest frames, which
/// forgets old ones: the mean of F^H W d, and beside it that of F^H W F of a point, whose transform is the sampling
/// density of each place of k-space. The middle of the first mean's k-space divided by that density has all lines, once
/// the frames together had them, each with the weight 1; places never sampled are 0. Maps are made anew before the
/// images of the first `average` frames, and then every `refresh` frames behind the image. Until the frames together
/// have the middle of k-space, images have aliases; until one of them has any of it, they are zero.
///
/// No frame waits for the device, except to make the operator of new lines (`encoding`). Throws ClientError when the
/// number of coils or the matrix changes, or when maps come in two sets. Sources: CgSenseRealtime; maps from frames
/// whose lines lie between one another: Kellman, Epstein, McVeigh, "Adaptive sensitivity encoding incorporating
/// temporal filtering (TSENSE)", MRM 45, 2001.
class CgSenseOfEquations final : public Gadget<NormalEquations, CoilImages> {
 public:
  using Options = CgSenseRealtimeOptions;
  static constexpr std::string_view kName = "cg_sense_realtime";
  static constexpr std::string_view kSummary =
      "Parallel imaging of frames whose trajectories never repeat, without plans, each from the frame before.";
  static Parameters<Options> parameters() { return cg_sense_parameters(); }

  explicit CgSenseOfEquations(Options options) : options_(options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(NormalEquations&& equations, const Emit<CoilImages>& emit) override;
  void finish(End how, const Emit<CoilImages>& emit) override;

 private:
  /// The state of a series, frames that differ in repetition or phase only: each leaves it to the next.
  struct Series {
    Series(Scan& scan, const numerics::Shape& image, const numerics::FixedCgOptions& options);
    numerics::FixedCg solver;
    SpikeRejection like;
    numerics::Shape image;
    Array<float> scale;  // [1]: L
    double on_device = 0;
    Array<cfloat> point;       // [z, y, x]
    Array<cfloat> ones;        // [z, y, x]: the middle of its k-space
    Array<cfloat> next, mean;  // [coil + 1, z, y, x]: F^H W d, then F^H W F of the point
    Array<cfloat> maps;        // [coil, z, y, x]
    double density = 0;        // mean over k-space and frames
    std::int64_t frames = 0;
  };
  /// An operator that the device may still read.
  struct InUse {
    std::shared_ptr<const numerics::NormalOperator> matrix;
    std::shared_ptr<std::atomic<bool>> done;
  };
  Series& series_of(const NormalEquations& equations);
  void hold(std::shared_ptr<const numerics::NormalOperator> matrix);
  void begin_mean(Series& series, const numerics::Shape& right);
  void add_to_mean(Series& series, const NormalEquations& equations, double share);
  void make_maps(Series& series);

  Options options_;
  Scan* scan_ = nullptr;
  std::map<FrameKey, Series> series_;
  std::deque<InUse> in_use_;  // oldest first
};

}  // namespace echotrain
