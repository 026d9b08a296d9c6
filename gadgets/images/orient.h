// Orient turns images the way viewers show them.
#pragma once

#include <cstdint>

#include "gadgets/api/gadget.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// Flips and exchanges the axes of images so that they lie as DICOM viewers show them, and changes their headers
/// accordingly: every voxel keeps its place in the patient. An image's normal decides which of the three planes it is
/// nearest to; its columns (x) and rows (y) then run as closely as possible along
///
///   | plane    | x, to the right of the screen | y, downwards     | z, slices of a volume |
///   | axial    | to the left side (L)          | to the back (P)  | to the head (S)       |
///   | coronal  | to the left side (L)          | to the feet (-S) | to the back (P)       |
///   | sagittal | to the back (P)               | to the feet (-S) | to the right side (-L)|
///
/// (patient coordinates L, P, S as in ISMRMRD's and DICOM's headers; z = x cross y, so that the axes are right-handed).
/// read_dir, phase_dir and slice_dir of the image are the directions of its x, y and z, its field of view goes with its
/// axes, and its position stays that of voxel floor(n/2): flipping an even number of voxels moves it by one voxel.
/// Images whose directions are not unit vectors at right angles pass unchanged, with a warning.
class Orient final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "orient";
  static constexpr std::string_view kSummary =
      "Turns images the way DICOM viewers show them, with the header to match.";
  static Parameters<Options> parameters() { return {}; }

  explicit Orient(Options /*options*/) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;

 private:
  Scan* scan_ = nullptr;
  FieldsOfView fields_of_view_;
};

}  // namespace echotrain
