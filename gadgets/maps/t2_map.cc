#include "gadgets/maps/t2_map.h"

#include <stdexcept>
#include <utility>

namespace echotrain {

Parameters<T2Map::Options> T2Map::parameters() {
  return with_map_options(Parameters<Options>(), "times_ms", "time", "TE, echo_time_ms or t2prep_ms")
      .choice("method", &Options::method, {"echoes", "preparation"},
              "what the times are of: echoes, or T2 preparations")
      .flag("offset", &Options::offset, "fit a constant, too")
      .flag("rician", &Options::rician, "correct magnitudes for their noise (Rice), where it is known")
      .number("least_ms", &Options::least_ms, 1e-3, 1e6, "the shortest T2")
      .unit("ms")
      .number("most_ms", &Options::most_ms, 1e-3, 1e6, "the longest T2; voxels at either end are 0")
      .unit("ms");
}

T2Map::T2Map(Options options) : VoxelMap(kName, options), options_(std::move(options)) {
  map_values(options_.values);
  if (!(options_.least_ms < options_.most_ms)) throw std::invalid_argument("least_ms is not below most_ms");
}

VoxelMap::Plan T2Map::plan(const protocol::Header& header) const {
  Plan plan;
  plan.fit.curve.offset = options_.offset;
  plan.fit.curve.least = options_.least_ms;
  plan.fit.curve.most = options_.most_ms;
  plan.fit.rician = options_.rician;
  const bool echoes = options_.method == "echoes";
  plan.at = values(header, echoes ? "TE" : "", echoes ? "echo_time_ms" : "t2prep_ms", "times_ms");
  plan.counter = echoes ? "contrast" : "set";
  plan.complex = false;
  plan.first = {"T2", "ms", 1, 75, 150, ""};
  return plan;
}

}  // namespace echotrain
