// Sobel computes the edges of images.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/mri/images/sobel.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// Computes Sobel's gradient of the images' magnitudes, channel by channel: |g|, its direction, or both.
///
///   | output    | planes (2D)                            | volumes (3D)                                          |
///   | magnitude | |g|                                    | |g|                                                   |
///   | direction | (gx + i gy) / |g|                      | channels gx / |g|, gy / |g|, gz / |g|                 |
///   | both      | gx + i gy                              | channels |g|, gx / |g|, gy / |g|, gz / |g|            |
///   | to send   | phase: the angle in radians, (-pi, pi] | real                                                  |
///   | them      | magnitude_and_phase: two series        |                                                       |
///
/// x, y, z are the image's axes at this gadget (put orient before it, not after). The angle runs from x towards y. The
/// direction is 0 where |g| is 0. Channel c of a volume becomes channels 3c.. (direction) or 4c.. (both).
///
/// Units: those of the image per voxel, along each axis, for any shape of voxels: a ramp of 1 from voxel to voxel has
/// |g| = 1. With `per: mm`, per millimetre: each component is divided by the voxel's size along its axis, so that
/// magnitude and direction are those in the patient even if voxels are longer along one axis.
///
/// Planes are 2D and volumes 3D; `dimensions: 2` treats each plane of a volume by itself, `dimensions: 3` refuses
/// planes. Borders are replicated: the gradient across a border is half the difference there. Non-finite voxels
/// propagate to neighbouring gradients. Meta attribute: gradient. Removes the display window of an earlier `scale`.
class Sobel final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    std::string output = "magnitude";
    std::string dimensions = "auto";
    std::string per = "voxel";
  };
  static constexpr std::string_view kName = "sobel";
  static constexpr std::string_view kSummary = "Edges: magnitude and direction of the images' gradient.";
  static Parameters<Options> parameters();

  explicit Sobel(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;

 private:
  std::array<float, 3> factors(const Frame& frame, const numerics::Shape& shape) const;

  Options options_;
  Scan* scan_ = nullptr;
  FieldsOfView fields_of_view_;
};

}  // namespace echotrain
