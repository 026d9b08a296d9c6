// The family gadgets/field.
#include "gadgets/builtin/families.h"
#include "gadgets/field/blip_up_down.h"
#include "gadgets/field/distortion_correction.h"
#include "gadgets/field/field_map_gadget.h"
#include "gadgets/field/off_resonance_gadget.h"

namespace echotrain {

void add_field(Registry& to) {
  to.add<OffResonanceImages>();
  to.add<FieldMap>();
  to.add<DistortionCorrection>();
  to.add<BlipUpDown>();
}

}  // namespace echotrain
