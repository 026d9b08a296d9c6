// The family gadgets/gridding.
#include "gadgets/gridding/gridding.h"

#include "gadgets/builtin/families.h"
#include "gadgets/builtin/fused.h"
#include "gadgets/gridding/deapodization.h"
#include "gadgets/gridding/density_compensation.h"
#include "gadgets/gridding/gridded_fft.h"
#include "gadgets/gridding/gridded_images.h"

namespace echotrain {

namespace {

/// Fuses gridding, transform and deapodization; with the options of four gadgets, the root sum of squares too.
template <class In>
std::unique_ptr<AnyGadget> fused_gridding(std::span<const GadgetOptions> options) {
  if (options_as<FftOptions>(options[1]).direction != "inverse") return nullptr;
  const bool combines = options.size() > 3;
  if (combines && !is_root_sum_of_squares(options[3])) return nullptr;
  return std::make_unique<GriddedImages<In>>(options_as<GriddingOptions>(options[0]), combines);
}

}  // namespace

void add_gridding(Registry& to) {
  to.add<DensityCompensation>();
  to.add<DensityCompensationOfPlanes>();
  to.add<Gridding>();
  to.add<GriddingOfPlanes>();
  to.add<GriddedFft>();
  to.add<Deapodization>();
  for (const auto& [takes, make] : {std::pair{ItemType::samples, &fused_gridding<Samples>},
                                    std::pair{ItemType::plane_samples, &fused_gridding<PlaneSamples>}}) {
    to.fuse({{"gridding", "fft", "deapodization", "coil_combine"}, takes, make});
    to.fuse({{"gridding", "fft", "deapodization"}, takes, make});
  }
}

}  // namespace echotrain
