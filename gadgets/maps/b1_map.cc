#include "gadgets/maps/b1_map.h"

#include <algorithm>
#include <numbers>
#include <stdexcept>
#include <utility>

namespace echotrain {

Parameters<B1Map::Options> B1Map::parameters() {
  return with_map_options(Parameters<Options>(), "angles_deg", "angle", "flipAngle_deg or flip_angle_deg")
      .number("least", &Options::least, 1e-3, 100, "the smallest ratio")
      .number("most", &Options::most, 0, 100,
              "the largest ratio; voxels at either end are 0. 0: that at which the smallest angle is 90 degrees");
}

B1Map::B1Map(Options options) : VoxelMap(kName, options), options_(std::move(options)) {
  map_values(options_.values);
  if (options_.most > 0 && !(options_.least < options_.most)) throw std::invalid_argument("least is not below most");
}

VoxelMap::Plan B1Map::plan(const protocol::Header& header) const {
  Plan plan;
  plan.fit.curve.shape = numerics::VoxelCurve::Shape::sine;
  plan.at = values(header, "flipAngle_deg", "flip_angle_deg", "angles_deg");
  const double smallest = *std::min_element(plan.at.begin(), plan.at.end());
  if (!(smallest > 0)) throw ClientError("b1_map: a flip angle of 0 degrees tells nothing");
  plan.fit.curve.least = options_.least;
  plan.fit.curve.most = options_.most > 0 ? options_.most : 90 / smallest;
  if (!(plan.fit.curve.least < plan.fit.curve.most))
    throw ClientError("b1_map: with these flip angles `least` leaves no range; say `most`");
  for (double& at : plan.at) at *= std::numbers::pi / 180;
  plan.counter = "set";
  plan.first = {"B1", "1", 1, 1, 1, ""};
  return plan;
}

}  // namespace echotrain
