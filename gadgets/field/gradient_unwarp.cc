#include "gadgets/field/gradient_unwarp.h"

#include <utility>

#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {

Parameters<GradientUnwarp::Options> GradientUnwarp::parameters() {
  return Parameters<Options>()
      .text(
          "coefficients", &Options::coefficients,
          "a file of the server's assets: .grad, .coef or .gradients (docs/off_resonance.md). Empty: the client sends "
          "its bytes, as an image of role gradient_coefficients")
      .number("radius_mm", &Options::radius_mm, 0, 10000, "of the harmonics, where the file has none")
      .unit("mm")
      .choice(
          "table_position", &Options::table_position, {"ignored", "added", "subtracted"},
          "patient_table_position. ignored: places count from the isocentre, as MRD says; added: from a point of the "
          "table, which has moved by it from there (L, P, S); subtracted: by its negative")
      .flag("modulate", &Options::modulate, "true: brightness is that of the object; false: only places are corrected");
}

void GradientUnwarp::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  warp_.start(header, scan);
}

void GradientUnwarp::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  if (are_phases(*images.frame, *scan_, kName)) return emit(std::move(images));
  emit(warp_.unwarped(std::move(images), nullptr, false));
}

}  // namespace echotrain
