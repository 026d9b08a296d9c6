// Sense reconstructs accelerated Cartesian scans by coil sensitivities (SENSE).
#pragma once

#include <string>
#include <string_view>

#include "gadgets/encoding/unmixed_frames.h"

namespace echotrain {

/// Unfolds the images of a regular lattice of lines voxel by voxel with coil maps from the reference lines (Pruessmann
/// et al., MRM 42, 1999; CAIPIRINHA: Breuer et al., MRM 55, 2006). Takes the lattice's lines alone, which must divide
/// the transform's extents. Other patterns, reference lines that serve the image and regularized solutions are for
/// `encoding`, `coil_maps` and `pcg`.
class Sense final : public Gadget<KSpace, CoilImages>, public HybridFrameImages {
 public:
  struct Options {
    std::string maps = "espirit";
    double lambda = 0.001;
    std::string otherwise = "refuse";
    bool g_factor = false, snr_units = false;
  };
  static constexpr std::string_view kName = "sense";
  static constexpr std::string_view kSummary =
      "Makes images of accelerated Cartesian scans: folded images are unfolded by coil sensitivities (SENSE).";
  static Parameters<Options> parameters();

  explicit Sense(const Options& options);
  void start(const protocol::Header& header, Scan& scan) override { frames_.start(header, scan); }
  void process(KSpace&& kspace, const Emit<CoilImages>& emit) override { frames_.process(std::move(kspace), emit); }
  void prepare(const HybridFrame& expected) override { frames_.prepare(expected); }
  void process(HybridFrame&& frame, const Emit<CoilImages>& emit) override { frames_.process(std::move(frame), emit); }

 private:
  UnmixedFrames frames_;
};

}  // namespace echotrain
