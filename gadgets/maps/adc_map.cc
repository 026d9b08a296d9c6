#include "gadgets/maps/adc_map.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "protocol/data/sequence_values.h"

namespace echotrain {

Parameters<AdcMap::Options> AdcMap::parameters() {
  return with_map_options(Parameters<Options>(), "b_s_per_mm2", "b", "diffusion/bvalue or b_value")
      .flag("rician", &Options::rician,
            "correct magnitudes for their noise (Rice), where it is known; one image of each b")
      .number("least", &Options::least, 1e-9, 1e3, "the smallest coefficient")
      .unit("mm2/s")
      .number("most", &Options::most, 1e-9, 1e3, "the largest coefficient; voxels at either end are 0")
      .unit("mm2/s");
}

AdcMap::AdcMap(Options options) : VoxelMap(kName, options), options_(std::move(options)) {
  map_values(options_.values);
  if (!(options_.least < options_.most)) throw std::invalid_argument("least is not below most");
}

VoxelMap::Plan AdcMap::plan(const protocol::Header& header) const {
  Plan plan;
  plan.fit.curve.value = numerics::VoxelCurve::Value::rate;
  plan.fit.curve.least = 1 / options_.most;
  plan.fit.curve.most = 1 / options_.least;
  plan.fit.rician = options_.rician;
  const protocol::DiffusionValues listed = protocol::diffusion_values(header.xml);
  plan.counter = "set";
  if (common().values.empty() && listed.b_s_per_mm2.size() > 1) {
    plan.at = listed.b_s_per_mm2;
    for (const char* known : {"contrast", "set", "repetition", "phase"})
      if (listed.counter == known) plan.counter = known, plan.told = true;
    if (!plan.told && !listed.counter.empty() && common().over == "auto")
      throw ClientError(
          fmt::format("adc_map: images along diffusionDimension {} cannot be told apart; say by `over` which counter "
                      "differs: contrast, set, repetition or phase",
                      listed.counter));
  } else {
    plan.at = values(header, "", "b_value", "b_s_per_mm2");
  }
  plan.average = !options_.rician;
  plan.complex = false;
  plan.first = {"ADC", "mm2/s", 1, 1.5e-3, 3e-3, ""};
  return plan;
}

}  // namespace echotrain
