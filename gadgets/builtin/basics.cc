// What nearly every pipeline has: noise out of the data, coils to one image, the image. The families gadgets/readouts
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
