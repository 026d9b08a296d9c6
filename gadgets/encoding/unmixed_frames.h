// The common part of the gadgets `grappa` and `sense`: accelerated Cartesian frames, one after another.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/encoding/parallel_weights.h"
#include "gadgets/encoding/unmixed_images.h"
#include "gadgets/shared/hybrid_frames.h"

namespace echotrain {

/// The options that both gadgets have; add_unmixed_parameters() explains them.
struct UnmixedOptions {
  UnmixedOptions();  // not inline: GCC 12 would take a base's string for uninitialised
  std::string otherwise = "refuse";
  bool g_factor = false, snr_units = false;
};
/// Adds the rows of UnmixedOptions after those of `table`, whose options have these as a base. or_else: what becomes of
/// coils of frames that are only transformed, beside their root sum of squares.
template <class Options>
Parameters<Options> add_unmixed_parameters(Parameters<Options> table, const std::string& or_else = "") {
  return std::move(table)
      .choice("otherwise", &UnmixedOptions::otherwise, {"refuse", "transform"},
              "of frames without acceleration, reference lines or a regular pattern. refuse: they give no image, and a "
              "warning says why. transform: what came is transformed as it is, and joined by root sum of squares" +
                  or_else + "; the warning says why, and that images alias")
      .flag("g_factor", &UnmixedOptions::g_factor,
            "true: also maps of the g-factor, as a series of their own, one for each set of weights")
      .flag("snr_units", &UnmixedOptions::snr_units,
            "true: each image also in units of the noise's standard deviation, as a series of its own; noise_adjust "
            "must have whitened the data");
}

struct UnmixedFramesOptions {
  UnmixedFramesOptions(std::string_view gadget, const UnmixedOptions& options);
  std::string name;  ///< name of the gadget, for texts
  WeightsOptions weights;
  bool transform;  ///< true: frames that cannot be unmixed are transformed without it; false: they give no
                   ///< image
  bool g_factor, snr_units;
  std::map<std::string, std::string> notes;  ///< notes of all unmixed images
};

/// Unmixes the frames that it can, and tells the reason for the others: a warning for each kind of reason, and a count
/// (ScanNumbers::frames_refused). A frame without an image ends; later ones go on.
class UnmixedFrames : public Gadget<KSpace, CoilImages>, public HybridFrameImages {
 public:
  /// Throws ClientError where the header announces an acceleration that no lattice has, unless such frames are
  /// transformed.
  void start(const protocol::Header& header, Scan& scan) override;
  /// Throws ClientError for k-space that does not say which lines came, or that was filtered, and where reference lines
  /// have another number of coils.
  void process(KSpace&& kspace, const Emit<CoilImages>& emit) override;
  /// Processes lines that were transformed along x as they came.
  void process(HybridFrame&& frame, const Emit<CoilImages>& emit) override;
  /// Makes the weights of a frame that will probably end with these facts, if it can be unmixed.
  void prepare(const HybridFrame& expected) override;

 protected:
  explicit UnmixedFrames(UnmixedFramesOptions options) : options_(std::move(options)), weights_(options_.weights) {}

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
