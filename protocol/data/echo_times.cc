#include "protocol/data/echo_times.h"

#include <algorithm>
#include <cmath>

#include "protocol/data/sequence_values.h"

namespace echotrain::protocol {

std::vector<double> echo_times_ms(std::string_view xml) {
  std::vector<double> times = sequence_values(xml, "TE");
  if (std::any_of(times.begin(), times.end(), [](double t) { return t <= 0 || std::isinf(t); })) times.clear();
  return times;
}

}  // namespace echotrain::protocol
