// Sense reconstructs accelerated Cartesian scans by coil sensitivities (SENSE).
#pragma once

#include <string>
#include <string_view>

#include "gadgets/encoding/unmixed_frames.h"

namespace echotrain {

/// Unfolds the images of a regular lattice of lines voxel by voxel with coil maps from the reference lines (Pruessmann
/// et al., MRM 42, 1999; CAIPIRINHA: Breuer et al., MRM 55, 2006); with two sets of maps where the object is larger
/// than the field of view (gadgets/numerics/mri/espirit/espirit_sets.h). Takes the lattice's lines alone, which must
/// divide the transform's extents. Other patterns, reference lines that serve the image and regularized solutions are
/// for `encoding`, `coil_maps` and `pcg`.
class Sense final : public UnmixedFrames {
 public:
  struct Options : UnmixedOptions {
    Options() = default;  // no aggregate: GCC 12 takes a base's string for uninitialised
    std::string maps = "espirit", sets = "auto";
    double lambda = 0.001;
  };
  static constexpr std::string_view kName = "sense";
  static constexpr std::string_view kSummary =
      "Makes images of accelerated Cartesian scans: folded images are unfolded by coil sensitivities (SENSE).";
  static Parameters<Options> parameters();

  explicit Sense(const Options& options);
};

}  // namespace echotrain
