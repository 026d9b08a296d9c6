// The echo times of a measurement, read from its header.
#pragma once

#include <string_view>
#include <vector>

namespace echotrain::protocol {

/// Returns sequenceParameters/TE of a header [ms], one per contrast as a rule; empty where the header has none, and
/// where one of them is no number above 0: what is in the wrong place would be the wrong echo's. `xml` is the text of a
/// header that parse_header() has accepted.
std::vector<double> echo_times_ms(std::string_view xml);

}  // namespace echotrain::protocol
