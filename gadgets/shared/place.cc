#include "gadgets/shared/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace echotrain {

double distance(const Vector& a, const Vector& b) { return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]); }

double angle_between(const Vector& a, const Vector& b) {
  const double lengths = distance(a, {}) * distance(b, {});
  if (!(lengths > 0)) return 0;
  return std::acos(std::clamp(dot(a, b) / lengths, -1.0, 1.0)) * 180 / std::numbers::pi;
}

std::vector<std::string> differences_of_place(const protocol::AcquisitionHeader& a,
                                              const protocol::AcquisitionHeader& b) {
  std::vector<std::string> out;
  const auto compare = [&](const char* what, double difference, double most, const char* unit) {
    if (!(difference <= most)) out.push_back(fmt::format("its {} differs by {:.1f} {}", what, difference, unit));
  };
  compare("position", distance(position_of(a), position_of(b)), kSamePlace_mm, "mm");
  compare("readout direction", angle_between(read_direction(a), read_direction(b)), kSamePlace_deg, "degrees");
  compare("phase direction", angle_between(phase_direction(a), phase_direction(b)), kSamePlace_deg, "degrees");
  compare("slice direction", angle_between(slice_direction(a), slice_direction(b)), kSamePlace_deg, "degrees");
  compare("table position", distance(table_position(a), table_position(b)), kSamePlace_mm, "mm");
  return out;
}

}  // namespace echotrain
