// DistortionCorrection corrects echo-planar images by a field map.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/field/gradient_warp.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// Moves voxels back along y, the axis of phase encoding, by the field map over the bandwidth of a voxel, and restores
/// their brightness where the signal was stretched or compressed (Jezzard & Balaban, MRM 34, 1995). The map is an image
/// of role field_map in the place of the undistorted object, over the image's field of view. Belongs before gadgets
/// that turn or crop images. G-factors and images in units of SNR are moved without the factor. Meta attribute:
/// distortion_correction, the largest shift in voxels.
class DistortionCorrection final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    std::string file;
    double line_interval_us = 0;
    std::string order = "ascending";
    bool modulate = true;
  };
  static constexpr std::string_view kName = "distortion_correction";
  static constexpr std::string_view kSummary =
      "Moves voxels of echo-planar images back to where a field map says that they belong.";
  static Parameters<Options> parameters();

  explicit DistortionCorrection(Options options);
  /// With a gradient_unwarp behind it: images are interpolated once.
  DistortionCorrection(Options options, GradientWarpOptions gradients);
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;

 private:
  /// The shifts of a slice.
  struct Shifts {
    std::uint16_t slice;
    double voxels_per_hz;
    std::shared_ptr<void> map;  // the side image that they were made from
    Array<float> shift;         // [z, y, x]
    double largest;
  };
  const Shifts& shifts_of(const Frame& frame, const numerics::Shape& image);
  double voxels_per_hz(const Frame& frame, std::int64_t rows) const;

  Options options_;
  Scan* scan_ = nullptr;
  std::vector<protocol::Encoding> encodings_;
  FieldsOfView fields_of_view_;
  std::optional<GradientWarp> gradients_;
  std::list<Shifts> kept_;  // most recent first, bounded
};

}  // namespace echotrain
