// The gadgets of nearly every pipeline: noise adjustment, coil combination, image output. The families gadgets/readouts
// and gadgets/images have the rest.
#include "gadgets/builtin/families.h"
#include "gadgets/images/coil_combine.h"
#include "gadgets/images/image.h"
#include "gadgets/readouts/noise_adjust.h"

namespace echotrain {

void add_basics(Registry& to) {
  to.add<NoiseAdjust>();
  to.add<CoilCombine>();
  to.add<ImageOutput>();
}

}  // namespace echotrain
