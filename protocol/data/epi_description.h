// The EPI description is the part of a header that describes the readouts of EPI.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/data/acquisition_check.h"

namespace echotrain::protocol {

/// Returns readout_kind() where the scan's trajectory is known: readouts of EPI that are flagged as reversed are lines
/// like the others.
ReadoutKind readout_kind(const AcquisitionHeader& head, Trajectory trajectory);

/// The element trajectoryDescription of an encoding: its identifier ("ConventionalEPI") and its numeric user parameters
/// (userParameterLong and userParameterDouble) by name, as they are: senders name them rampUpTime, flatTopTime, ...
struct TrajectoryDescription {
  std::string identifier;
  std::map<std::string, double> values;
  std::optional<double> value(std::string_view name) const;
};

/// Reads it; nothing when encoding number `encoding` has no such element. What is no finite number is left out. `xml`
/// is the text of a header that parse_header() has accepted.
std::optional<TrajectoryDescription> trajectory_description(std::string_view xml, std::size_t encoding);

/// The element multiband of an encoding's parallelImaging: slices that are excited at once.
struct Multiband {
  std::uint32_t factor = 1;        ///< multiband_factor: how many
  std::vector<double> spacing_mm;  ///< spacing, dZ: from each to the next; empty: not said
  double delta_kz = 0;             ///< deltaKz: what the blips along z add from line to line [1/mm]
};

/// Reads it; nothing when encoding number `encoding` has no such element, or its factor is no whole number above 0.
/// `xml` as above.
std::optional<Multiband> multiband(std::string_view xml, std::size_t encoding);

}  // namespace echotrain::protocol
