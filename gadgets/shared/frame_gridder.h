// A FrameGridder convolves frames of samples onto oversampled grids: at once, in parts as they come, or as positions of
// a sliding window.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "gadgets/api/errors.h"
#include "gadgets/api/items.h"
#include "gadgets/api/parameters.h"
#include "gadgets/api/scan.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "gadgets/shared/cache/plan_cache.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

struct GriddingOptions {
  std::int64_t dimensions = 2;
  std::int64_t kernel_width = 5;
  double oversampling = 1.5;
  double accuracy = 0;
  bool any_trajectory = false;  ///< accuracy holds for the worst trajectory, not on average; not a YAML parameter
  bool incremental = true;
  std::int64_t rebuild_every = 32;
};
Parameters<GriddingOptions> gridding_parameters();

/// The common part of gridding gadgets. The image's voxels are those of the header's recon space. Plans are shared
/// through PlanCache; the one that the scan will probably need is made before its data.
class FrameGridder {
 public:
  /// Throws std::invalid_argument when options exclude each other.
  explicit FrameGridder(GriddingOptions options);
  /// The delivery that a gadget with these options can take.
  static Delivery delivery(const GriddingOptions& options) {
    return options.incremental ? Delivery::windows : Delivery::frames;
  }
  /// Throws ClientError when the measurement has other dimensions, or when its images cannot have the required
  /// accuracy. `planes`: the samples are those of a stack's planes, 2D though the encoding is 3D.
  void start(const protocol::Header& header, Scan& scan, bool planes = false);

  /// A frame's samples on the grid.
  struct Gridded {
    std::shared_ptr<const Frame> frame;
    Array<cfloat> grid;  ///< [coil, grid...] in FFT order; owned by the receiver
    std::shared_ptr<const numerics::NufftPlan> plan;
  };
  /// Adds samples; returns the grid when they are a frame's last.
  std::optional<Gridded> add(Samples&& samples);
  /// The plan of a frame that comes whole, for callers that need no grid.
  std::shared_ptr<const numerics::NufftPlan> plan(const Samples& samples);

 private:
  struct Partial {
    Array<cfloat> grid;
    std::shared_ptr<const numerics::NufftPlan> plan;
  };
  /// Readouts that entered a window together.
  struct Chunk {
    std::int64_t begin = 0, end = 0;  // counted from the window's first readout ever
    std::int64_t per_readout = 0;
    Array<cfloat> data;
    Array<float> weights;
    std::shared_ptr<const numerics::NufftPlan> plan;
  };
  struct Window {
    std::deque<Chunk> chunks;  // oldest first
    Array<cfloat> grid;
    std::shared_ptr<const numerics::NufftPlan> plan;  // for some of its readouts
    std::int64_t begin = 0;                           // readouts that have left
    std::int64_t moves = 0;                           // moves since the grid was rebuilt from the chunks
  };
  struct Held {
    std::shared_ptr<const SamplePositions> positions;
    std::uint16_t encoding;
    std::shared_ptr<const numerics::NufftPlan> plan;
  };

  PlanCache::Request request(std::shared_ptr<const SamplePositions> positions, std::uint16_t encoding) const;
  std::shared_ptr<const numerics::NufftPlan> shared_plan(const std::shared_ptr<const SamplePositions>& positions,
                                                         std::uint16_t encoding, bool count);
  std::shared_ptr<const numerics::NufftPlan> loose_plan(const std::shared_ptr<const SamplePositions>& positions,
                                                        std::uint16_t encoding);
  Array<cfloat> make_grid(const numerics::NufftPlan& plan, std::int64_t coils);
  void add_part(Partial& partial, const Samples& samples);
  std::optional<Gridded> move_window(Samples&& samples);
  void begin_position(Window& window, const Frame& frame);
  void add_readouts(Window& window, const Chunk& chunk, std::int64_t begin, std::int64_t end, float sign);

  GriddingOptions options_;
  Scan* scan_ = nullptr;
  std::vector<ImageGeometry> geometries_;
  std::vector<numerics::NufftOptions> nufft_;                      // per encoding
  std::vector<std::shared_ptr<const numerics::NufftPlan>> loose_;  // per encoding: the model for other plans
  std::vector<Held> plans_;                   // most recent first, bounded: held so that the cache keeps them
  std::map<std::uint64_t, Partial> partial_;  // by frame
  std::map<std::uint64_t, Window> windows_;
};

}  // namespace echotrain
