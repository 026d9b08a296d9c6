// The common part of `grappa` and `sense`: accelerated Cartesian frames, one after another.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/encoding/parallel_weights.h"
#include "gadgets/encoding/unmixed_images.h"
#include "gadgets/shared/hybrid_frames.h"

namespace echotrain {

struct UnmixedFramesOptions {
  std::string name;  ///< name of the gadget, for texts
  WeightsOptions weights;
  bool transform = false;  ///< true: frames that cannot be unmixed are transformed without it; false: they give no
                           ///< image
  bool g_factor = false, snr_units = false;
  std::map<std::string, std::string> notes;  ///< notes of all unmixed images
};

/// Unmixes the frames that it can, and tells the reason for the others: a warning for each kind of reason, and a count
/// (ScanNumbers::frames_refused). A frame without an image ends; later ones go on.
class UnmixedFrames {
 public:
  explicit UnmixedFrames(UnmixedFramesOptions options) : options_(std::move(options)), weights_(options_.weights) {}

  /// Throws ClientError where the header announces an acceleration that no lattice has, unless such frames are
  /// transformed.
  void start(const protocol::Header& header, Scan& scan);
  /// Throws ClientError for k-space that does not say which lines came, or that was filtered, and where reference lines
  /// have another number of coils.
  void process(KSpace&& kspace, const Emit<CoilImages>& emit);
  /// Processes lines that were transformed along x as they came.
  void process(HybridFrame&& frame, const Emit<CoilImages>& emit);
  /// Makes the weights of a frame that will probably end with these facts, if it can be unmixed.
  void prepare(const HybridFrame& expected);

 private:
  using Steps = std::array<std::uint16_t, 2>;  // y, z
  /// A frame in one of the two forms; for a KSpace, `half` is empty.
  struct Acquired {
    HybridFrame facts;
    Array<cfloat> kspace;  // [coil, z, y, x]
    std::int64_t coils() const { return (kspace ? kspace : facts.half).shape()[0]; }
  };
  void unmix(Acquired&& acquired, const Emit<CoilImages>& emit);
  void check(const HybridFrame& facts) const;
  std::string missing_lines(const SampledLines& lines, const Steps& announced) const;
  void refuse(const char* kind, const std::string& why, Acquired&& acquired, const Emit<CoilImages>& emit);
  CoilImages plain_images(Acquired& acquired) const;
  void give(Acquired&& acquired, const ParallelWeights::Found& found, const Emit<CoilImages>& emit);
  void warn_of_noise(const Frame& frame, const Weights& weights);

  UnmixedFramesOptions options_;
  ParallelWeights weights_;
  Scan* scan_ = nullptr;
  std::vector<Steps> announced_;     // per encoding
  std::vector<std::string> no_fit_;  // per encoding: why no lattice has the announced steps; empty: one may
  std::set<std::string> told_;       // kinds of reasons already told
};

}  // namespace echotrain
