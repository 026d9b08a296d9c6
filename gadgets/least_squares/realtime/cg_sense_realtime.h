// CgSenseRealtime does real-time parallel imaging, frame by frame, for trajectories that do not repeat.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/least_squares/realtime/cg_sense_options.h"
#include "gadgets/least_squares/realtime/spike_rejection.h"
#include "gadgets/numerics/inverse/solver/fixed_cg.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "gadgets/numerics/transforms/scatter/scatter.h"
#include "gadgets/numerics/transforms/toeplitz/frame_toeplitz.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// Solves sum_c |F S_c x - d_c|_W^2 + lambda L |x - x_before|^2 + tikhonov L |x|^2 for each frame, starting from the
/// previous one, by a fixed number of conjugate gradient steps; L is the largest value of F^H W F's spectrum. F^H W d
/// and F^H W F are scattered from the frame's own positions: no plan, no sort, no power iteration. The maps S come from
/// a mean of the latest frames, which forgets old ones and leaves out outliers (spikes); a frame after an outlier
/// begins as the first did. The first two frames make maps before their image, later ones now and then after their
/// image has left. Parts of a frame go to the device as they come; the work begins with the last one, so that the bits
/// do not depend on the readouts' batches. On CUDA, nothing waits for the device once the first two frames have passed,
/// unless a frame has more than about a million samples: their upload then waits for pinned memory.
///
/// Sources: CG-SENSE: Pruessmann et al., MRM 46, 2001; F^H W F as a convolution: Fessler et al., IEEE TSP 53(9), 2005;
/// frames that begin with the previous one: Sorensen et al., "Real-time reconstruction of sensitivity encoded radial
/// MRI using a graphics processing unit", IEEE TMI 28(12), 2009, whose maps also come from the data as they arrive.
class CgSenseRealtime final : public Gadget<Samples, CoilImages> {
 public:
  using Options = CgSenseRealtimeOptions;
  static constexpr std::string_view kName = "cg_sense_realtime";
  static constexpr std::string_view kSummary =
      "Parallel imaging of frames whose trajectories never repeat, without plans, each from the frame before.";
  static constexpr Delivery kDelivery = Delivery::parts;  // F^H F belongs to a whole window
  static Parameters<Options> parameters() { return cg_sense_parameters(); }

  explicit CgSenseRealtime(Options options) : options_(options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Samples&& samples, const Emit<CoilImages>& emit) override;
  void finish(End how, const Emit<CoilImages>& emit) override;

 private:
  /// The arrays in which the frames of an encoding are computed.
  struct Workshop {
    Workshop(numerics::Context& compute, const numerics::Shape& image, std::int64_t coils,
             const numerics::NufftOptions& of_data, const numerics::NufftOptions& of_lags);
    std::int64_t coils;
    numerics::ScatterNufft data, lags;
    numerics::FrameToeplitz matrix;
    Array<cfloat> right;  // [coil, z, y, x]: F^H W d of the frame
  };
  /// The state of a series, frames that differ in repetition or phase only: each leaves it to the next.
  struct Series {
    Series(Scan& scan, const numerics::Shape& image, const numerics::FixedCgOptions& options);
    numerics::FixedCg solver;
    SpikeRejection like;
    Array<cfloat> mean, maps;  // [coil, z, y, x]
    std::int64_t frames = 0;
  };

  /// A frame's samples, where the context computes. `count` of them have come.
  struct Open {
    Array<double> coordinates;  // [sample, 2], cycles/image pixel
    Array<cfloat> data;         // [sample, coil]
    Array<float> weights;       // [sample]
    std::int64_t count = 0;
  };

  void add(Open& open, Samples&& samples);
  void reconstruct(const Open& open, const std::shared_ptr<const Frame>& frame, const Emit<CoilImages>& emit);
  Workshop& workshop_for(std::uint16_t encoding, std::int64_t coils);
  Series& series_of(const FrameKey& key, const Workshop& workshop);
  void make_maps(Series& series);

  Options options_;
  Scan* scan_ = nullptr;
  std::vector<ImageGeometry> geometries_;
  std::vector<numerics::NufftOptions> of_data_, of_lags_;  // per encoding
  std::map<std::uint16_t, Workshop> workshops_;            // by encoding
  std::map<FrameKey, Series> series_;
  std::map<std::uint64_t, Open> open_;  // by frame
  std::int64_t usual_samples_ = 0;      // number in the previous frame
};

}  // namespace echotrain
