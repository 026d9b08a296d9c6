// The patient's position tells how the scanner's axes lie in the patient's.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace echotrain::protocol {

/// Returns the device's axes x, y, z in the patient's coordinates (L, P, S), by measurementInformation/patientPosition
/// (HFS, FFP, HFDR, ...: DICOM PS3.3 C.7.3.1.1.2). Seen from the front of the scanner, where the table is, x points to
/// the right, y up and z out of the bore: for HFS left, anterior and inferior. No value where the header has no
/// position, or another. `xml` is the text of a header that parse_header() has accepted.
std::optional<std::array<std::array<double, 3>, 3>> device_axes(std::string_view xml);

/// Returns the value of the header's user parameter (userParameterLong, Double or String) of this name; empty where
/// there is none.
std::string user_parameter(std::string_view xml, std::string_view name);

}  // namespace echotrain::protocol
