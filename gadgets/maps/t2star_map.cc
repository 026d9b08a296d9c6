#include "gadgets/maps/t2star_map.h"

#include <stdexcept>
#include <utility>

namespace echotrain {

Parameters<T2StarMap::Options> T2StarMap::parameters() {
  return with_map_options(Parameters<Options>(), "times_ms", "time", "TE or echo_time_ms")
      .choice("signal", &Options::signal, {"complex", "magnitude"}, "complex: T2* and the field. magnitude: T2* alone")
      .flag("rician", &Options::rician, "correct magnitudes for their noise (Rice), where it is known")
      .number("least_ms", &Options::least_ms, 1e-3, 1e6, "the shortest T2*")
      .unit("ms")
      .number("most_ms", &Options::most_ms, 1e-3, 1e6, "the longest T2*; voxels at either end are 0")
      .unit("ms");
}

T2StarMap::T2StarMap(Options options) : VoxelMap(kName, options), options_(std::move(options)) {
  map_values(options_.values);
  if (!(options_.least_ms < options_.most_ms)) throw std::invalid_argument("least_ms is not below most_ms");
  if (options_.rician && options_.signal != "magnitude") throw std::invalid_argument("rician needs signal: magnitude");
}

VoxelMap::Plan T2StarMap::plan(const protocol::Header& header) const {
  Plan plan;
  plan.fit.curve.turning = options_.signal == "complex";
  plan.fit.curve.least = options_.least_ms;
  plan.fit.curve.most = options_.most_ms;
  plan.fit.rician = options_.rician;
  plan.at = values(header, "TE", "echo_time_ms", "times_ms");
  plan.counter = "contrast";
  plan.complex = options_.signal == "complex";
  plan.first = {"T2star", "ms", 1, 40, 80, ""};
  plan.second = {"B0", "Hz", 1000, 0, 400, "field_map"};
  return plan;
}

}  // namespace echotrain
