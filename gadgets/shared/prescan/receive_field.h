// A ReceiveField says how much more the array sees than the body coil, anywhere in the patient.
#pragma once

#include <string>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/shared/prescan/patient_box.h"
#include "gadgets/shared/store/prescan_store.h"

namespace echotrain {

/// The field of a prescan: the root sum of squares of the array's coils over that of the body coil's, on the prescan's
/// own grids, by regularised least squares (gadgets/numerics/mri/intensity/receive_ratio.h). Its mean, weighted by the
/// square of the body coil's signal, is 1 over all places together.
class ReceiveField {
 public:
  /// coils: the array's channels that the images are made of; whitening: [coil, coil] of these, or empty. Waits for the
  /// device. Throws std::invalid_argument where the body coil sees nothing, or a number is not finite.
  ReceiveField(numerics::Context& compute, const PrescanRecord& record, const std::vector<std::size_t>& coils,
               const std::vector<numerics::cfloat>& whitening);

  /// The field at an image's voxels [z, y, x], by cubic interpolation (Keys, IEEE TASSP 29(6), 1981) on the nearest
  /// place; beyond its borders, it continues with the value there. Returns false where no place holds the image, or the
  /// table has moved: then `why_not` completes the sentence "the prescan ...".
  bool at(numerics::ThreadPool& threads, const PatientBox& image, numerics::HostView<float> field,
          std::string& why_not) const;
  /// The field's standard deviation over its mean, weighted as the mean.
  double spread() const { return spread_; }

 private:
  struct Part {
    PatientBox box;
    std::vector<double> field;  // [z, y, x]
  };
  std::vector<Part> parts_;
  double spread_ = 0;
};

}  // namespace echotrain
