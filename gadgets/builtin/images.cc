// The family gadgets/images.
#include "gadgets/builtin/families.h"
#include "gadgets/images/average.h"
#include "gadgets/images/contrast/denoise.h"
#include "gadgets/images/contrast/invert_contrast.h"
#include "gadgets/images/contrast/label.h"
#include "gadgets/images/contrast/psir_gadget.h"
#include "gadgets/images/from_messages.h"
#include "gadgets/images/intensity.h"
#include "gadgets/images/kspace/filter.h"
#include "gadgets/images/kspace/partial_fourier_gadget.h"
#include "gadgets/images/kspace/unring_gadget.h"
#include "gadgets/images/orient.h"
#include "gadgets/images/register_gadget.h"
#include "gadgets/images/resize.h"
#include "gadgets/images/scale.h"
#include "gadgets/images/sobel_gadget.h"
#include "gadgets/images/stack_slices.h"

namespace echotrain {

void add_images(Registry& to) {
  to.add<PartialFourier>();
  to.add<PartialFourierOfImages>();
  to.add<Filter>();
  to.add<FilterOfImages>();
  to.add<Unring>();
  to.add<StackSlices>();
  to.add<Average>();
  to.add<Resize>();
  to.add<Orient>();
  to.add<Sobel>();
  to.add<Denoise>();
  to.add<InvertContrast>();
  to.add<Psir>();
  to.add<Register>();
  to.add<Intensity>();
  to.add<Scale>();
  to.add<Label>();
  to.add<FromMessages>();
}

}  // namespace echotrain
