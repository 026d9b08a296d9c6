// The EPI description is the part of a header that describes the readouts of EPI.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pugi {
class xml_node;
}

namespace echotrain::protocol {

/// The element trajectoryDescription of an encoding: its identifier ("ConventionalEPI") and its numeric user parameters
/// (userParameterLong and userParameterDouble) by name, as they are: senders name them rampUpTime, flatTopTime, ...
struct TrajectoryDescription {
  static constexpr std::size_t kMostValues = 128;  ///< those that come first
  std::string identifier;
  std::map<std::string, double> values;
  std::optional<double> value(std::string_view name) const;
};

/// Reads it of an element `encoding`; null when that has none. What is no finite number is left out.
std::shared_ptr<const TrajectoryDescription> trajectory_description(const pugi::xml_node& encoding);

/// The element multiband of an encoding's parallelImaging: slices that are excited at once.
struct Multiband {
  static constexpr std::uint32_t kMostSlices = 1000;
  std::uint32_t factor = 1;        ///< multiband_factor: how many
  std::vector<double> spacing_mm;  ///< spacing, dZ: from each to the next, at most kMostSlices; empty: not said
  double delta_kz = 0;             ///< deltaKz: what the blips along z add from line to line [1/mm]
};

/// Reads it of an element `encoding`; null when that has none, or its factor is no whole number from 1 to kMostSlices.
std::shared_ptr<const Multiband> multiband(const pugi::xml_node& encoding);

}  // namespace echotrain::protocol
