// The family gadgets/encoding.
#include "gadgets/encoding/encoding.h"

#include <memory>
#include <span>

#include "gadgets/builtin/families.h"
#include "gadgets/builtin/fused.h"
#include "gadgets/cartesian/calibrated_images.h"
#include "gadgets/cartesian/cartesian_kspace.h"
#include "gadgets/encoding/grappa.h"
#include "gadgets/encoding/sense.h"

namespace echotrain {

namespace {

/// Fuses the gadgets from Cartesian lines to images that need reference lines.
template <class Images>
std::unique_ptr<AnyGadget> fused_calibrated(std::span<const GadgetOptions> options) {
  return std::make_unique<CalibratedImages>(options_as<ReferenceOptions>(options[0]),
                                            std::make_unique<Images>(options_as<typename Images::Options>(options[1])));
}

}  // namespace

void add_encoding(Registry& to) {
  to.add<Encoding>();
  to.add<Grappa>();
  to.add<Sense>();
  to.fuse({{"cartesian_kspace", "grappa"}, ItemType::readouts, fused_calibrated<Grappa>, /*cpu_only=*/true});
  to.fuse({{"cartesian_kspace", "sense"}, ItemType::readouts, fused_calibrated<Sense>, /*cpu_only=*/true});
}

}  // namespace echotrain
