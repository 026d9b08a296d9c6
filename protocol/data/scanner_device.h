// The scanner device is the one that the header names.
#pragma once

#include <string>
#include <string_view>

namespace echotrain::protocol {

/// Returns "serial NUMBER", by acquisitionSystemInformation/deviceSerialNumber, else "id ID of INSTITUTION", by
/// deviceID and institutionName; empty where the header has neither. `xml` is the text of a header that parse_header()
/// has accepted.
std::string device_of(std::string_view xml);

}  // namespace echotrain::protocol
