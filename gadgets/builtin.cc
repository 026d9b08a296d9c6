// The list of all gadgets.
#include "gadgets/cartesian_kspace.h"
#include "gadgets/coil_combine.h"
#include "gadgets/deapodization.h"
#include "gadgets/density_compensation.h"
#include "gadgets/fft.h"
#include "gadgets/gridding.h"
#include "gadgets/image.h"
#include "gadgets/noise_adjust.h"
#include "gadgets/passthrough.h"
#include "gadgets/registry.h"

namespace echotrain {

const Registry& Registry::builtin() {
  static const Registry registry = [] {
    Registry r;
    r.add<NoiseAdjust>();
    r.add<CartesianKSpace>();
    r.add<DensityCompensation>();
    r.add<Gridding>();
    r.add<CartesianFft>();
    r.add<GriddedFft>();
    r.add<Deapodization>();
    r.add<CoilCombine>();
    r.add<ImageOutput>();
    r.add<Passthrough>();
    return r;
  }();
  return registry;
}

}  // namespace echotrain
