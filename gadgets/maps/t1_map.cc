#include "gadgets/maps/t1_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace echotrain {

Parameters<T1Map::Options> T1Map::parameters() {
  return with_map_options(Parameters<Options>(), "times_ms", "time", "TI, inversion_time_ms or saturation_time_ms")
      .choice("method", &Options::method, {"inversion", "inversion_2", "look_locker", "saturation", "saturation_2"},
              "_2: two parameters, of an ideal preparation. look_locker: MOLLI. Without saturation a time is 0")
      .choice("signal", &Options::signal, {"auto", "complex", "magnitude"},
              "auto: magnitudes where a client sent such. After coil_combine: {method: rss} say magnitude")
      .number("period_ms", &Options::period_ms, 0, 1e6, "_2: from one preparation to the next; 0: long against T1")
      .unit("ms")
      .number("least_ms", &Options::least_ms, 1e-3, 1e6, "the shortest T1")
      .unit("ms")
      .number("most_ms", &Options::most_ms, 1e-3, 1e6, "the longest T1; voxels at either end are 0")
      .unit("ms");
}

T1Map::T1Map(Options options) : VoxelMap(kName, options), options_(std::move(options)) {
  map_values(options_.values);
  if (!(options_.least_ms < options_.most_ms)) throw std::invalid_argument("least_ms is not below most_ms");
}

VoxelMap::Plan T1Map::plan(const protocol::Header& header) const {
  using Curve = numerics::VoxelCurve;
  Plan plan;
  const std::string& method = options_.method;
  const bool saturation = method.starts_with("saturation"), two = method.ends_with("_2");
  Curve& curve = plan.fit.curve;
  curve.shape = two ? Curve::Shape::recovery : Curve::Shape::decay;
  curve.offset = !two;
  curve.value = method == "look_locker" ? Curve::Value::look_locker : Curve::Value::time;
  curve.prepared = saturation ? 0 : -1;
  curve.period = options_.period_ms;
  curve.least = options_.least_ms;
  curve.most = options_.most_ms;
  plan.at = values(header, "TI", saturation ? "saturation_time_ms" : "inversion_time_ms", "times_ms");
  if (two && options_.period_ms > 0)
    if (const double longest = *std::max_element(plan.at.begin(), plan.at.end()); longest > options_.period_ms)
      throw ClientError(
          fmt::format("t1_map: period_ms {} is from one preparation to the next, and shorter than the "
                      "time {} ms after one",
                      options_.period_ms, longest));
  if (saturation)
    for (double& at : plan.at)
      if (at == 0) at = std::numeric_limits<double>::infinity();
  plan.counter = "set";
  plan.complex = options_.signal != "magnitude";
  plan.polarity = !saturation;
  plan.first = {"T1", "ms", 1, 1500, 3000, ""};
  return plan;
}

}  // namespace echotrain
