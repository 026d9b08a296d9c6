// The family gadgets/field.
#include "gadgets/builtin/families.h"
#include "gadgets/builtin/fused.h"
#include "gadgets/field/blip_up_down.h"
#include "gadgets/field/distortion_correction.h"
#include "gadgets/field/field_map_gadget.h"
#include "gadgets/field/gradient_unwarp.h"
#include "gadgets/field/off_resonance_gadget.h"

namespace echotrain {
namespace {

/// Makes one gadget of a correction of echo-planar images and the gradient_unwarp behind it.
template <class Correction>
std::unique_ptr<AnyGadget> with_gradients(std::span<const GadgetOptions> options) {
  return std::make_unique<Correction>(options_as<typename Correction::Options>(options[0]),
                                      options_as<GradientUnwarp::Options>(options[1]));
}

}  // namespace

void add_field(Registry& to) {
  to.add<OffResonanceImages>();
  to.add<FieldMap>();
  to.add<DistortionCorrection>();
  to.add<BlipUpDown>();
  to.add<GradientUnwarp>();
  to.fuse({{"distortion_correction", "gradient_unwarp"}, ItemType::coil_images, with_gradients<DistortionCorrection>});
  to.fuse({{"blip_up_down", "gradient_unwarp"}, ItemType::coil_images, with_gradients<BlipUpDown>});
}

}  // namespace echotrain
