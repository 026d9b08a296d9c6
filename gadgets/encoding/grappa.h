// Grappa reconstructs accelerated Cartesian scans by kernels in k-space (GRAPPA).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gadgets/encoding/unmixed_frames.h"

namespace echotrain {

/// Predicts the missing lines from the acquired ones, by kernels from the reference lines (Griswold et al., MRM 47,
/// 2002; numerics/mri/parallel): regular lattices of lines, of volumes on both axes and with CAIPIRINHA's shift. Gives
/// one image per frame, joined with maps from the reference lines: kernels and maps together are weights in image
/// space, and rows at the edges of k-space, where these are wrong, are corrected. Or it gives the images of all coils,
/// by the kernels themselves. Acquired lines keep their values; reference lines that came with a frame serve its image,
/// too. K-space beyond the outermost lines stays 0.
class Grappa final : public UnmixedFrames {
 public:
  struct Options : UnmixedOptions {
    Options() = default;  // no aggregate: GCC 12 takes a base's string for uninitialised
    std::int64_t kernel_x = 5, kernel_y = 4, kernel_z = 4;
    double regularization = numerics::GrappaOptions{}.regularization;
    std::string output = "combined";
  };
  static constexpr std::string_view kName = "grappa";
  static constexpr std::string_view kSummary =
      "Makes images of accelerated Cartesian scans: lines that were left out are predicted by kernels (GRAPPA).";
  static Parameters<Options> parameters();

  /// Throws std::invalid_argument for g-factors of coil images.
  explicit Grappa(const Options& options);
};

}  // namespace echotrain
