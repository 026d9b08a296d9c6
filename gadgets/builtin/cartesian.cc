// The family gadgets/cartesian.
#include <memory>
#include <span>

#include "gadgets/builtin/families.h"
#include "gadgets/builtin/fused.h"
#include "gadgets/cartesian/cartesian_fft.h"
#include "gadgets/cartesian/cartesian_images.h"
#include "gadgets/cartesian/cartesian_kspace.h"

namespace echotrain {

namespace {

/// Fuses the gadgets from Cartesian lines to images; with the options of three gadgets, the root sum of squares too.
std::unique_ptr<AnyGadget> fused_cartesian(std::span<const GadgetOptions> options) {
  const bool combines = options.size() > 2;
  if (combines && !is_root_sum_of_squares(options[2])) return nullptr;
  return std::make_unique<CartesianImages>(fft_direction(options_as<FftOptions>(options[1])), combines,
                                           options_as<ReferenceOptions>(options[0]));
}

}  // namespace

void add_cartesian(Registry& to) {
  to.add<CartesianKSpace>();
  to.add<CartesianFft>();
  to.fuse({{"cartesian_kspace", "fft", "coil_combine"}, ItemType::readouts, fused_cartesian, /*cpu_only=*/true});
  to.fuse({{"cartesian_kspace", "fft"}, ItemType::readouts, fused_cartesian, /*cpu_only=*/true});
}

}  // namespace echotrain
