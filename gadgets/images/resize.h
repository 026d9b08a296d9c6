// Resize interpolates images by zero-filling their k-space, and crops them.
#pragma once

#include <array>
#include <cstdint>

#include "gadgets/api/gadget.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// First interpolates to `matrix_*` voxels over the same field of view: the image's discrete k-space, centre at
/// floor(n/2), is padded with zeros about its centre, or cut to fewer voxels, as if that had been done with the scan's
/// own k-space. (Images whose k-space is not zero at its edge then ring, as with any sinc interpolation, and real
/// images get a small imaginary part for even matrices.) Amplitudes stay. Then crops about the centre to `crop_*` of
/// those voxels; the field of view shrinks with it. 0 leaves an axis unchanged. The voxel floor(n/2) and the header's
/// position do not move.
class Resize final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    std::int64_t matrix_x = 0, matrix_y = 0, matrix_z = 0;
    std::int64_t crop_x = 0, crop_y = 0, crop_z = 0;
  };
  static constexpr std::string_view kName = "resize";
  static constexpr std::string_view kSummary = "Interpolates images by zero-filling, and crops them about the centre.";
  static Parameters<Options> parameters();

  explicit Resize(Options options) : options_(options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;

 private:
  Options options_;
  Scan* scan_ = nullptr;
  FieldsOfView fields_of_view_;
};

}  // namespace echotrain
