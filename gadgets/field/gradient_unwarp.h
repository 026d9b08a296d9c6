// GradientUnwarp corrects images for the nonlinearity of the scanner's gradients.
#pragma once

#include "gadgets/api/gadget.h"
#include "gadgets/field/gradient_warp.h"

namespace echotrain {

/// Moves voxels back to where they belong, by the spherical harmonics of the site's gradient coils, and gives them the
/// brightness of the object (numerics/mri/field/gradient_field.h). The place of an image in the scanner is that of its
/// header, with the header's patientPosition; volumes are moved in all directions, images of one plane within it.
///
/// Behind distortion_correction or blip_up_down, both are one gadget and images are interpolated once. Images stay as
/// they are where the sender has corrected them: their attributes ImageType, ImageTypeValue3, ImageTypeValue4 or
/// ImageProcessingHistory say DIS2D or DIS3D, or they have gradient_unwarp, or the header's user parameter
/// gradient_unwarp is other than 0 and none; a client's phases stay, too.
/// Meta attributes: gradient_unwarp (2D, 3D, by the sender, none), gradient_unwarp_mm, the largest displacement, and of
/// 2D images gradient_unwarp_across_mm, the largest one across the plane, which stays.
///
/// Throws ClientError for coefficients that are not there or cannot be read, with the line.
class GradientUnwarp final : public Gadget<CoilImages, CoilImages> {
 public:
  using Options = GradientWarpOptions;
  static constexpr std::string_view kName = "gradient_unwarp";
  static constexpr std::string_view kSummary =
      "Moves voxels back to where they belong in spite of nonlinear gradients, by the site's coefficients.";
  static Parameters<Options> parameters();

  explicit GradientUnwarp(Options options) : warp_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;

 private:
  Scan* scan_ = nullptr;
  GradientWarp warp_;
};

}  // namespace echotrain
