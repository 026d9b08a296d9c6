// `echotrain noise`: what a scan's noise readouts say of its coils.
#pragma once

#include <filesystem>
#include <iosfwd>

#include "config/option.h"

namespace echotrain::client {

struct NoiseOptions {
  std::filesystem::path input;
  double correlation = 0.3;  ///< pairs of coils above it are listed
};

config::OptionTable<NoiseOptions> noise_options();

/// Prints, for each group of the file that has noise readouts, a line per coil: its number, its label, the standard
/// deviation of its noise's real part in the unit of the readouts, and that over the coils' median; then pairs of coils
/// whose noise is correlated. protocol::DatasetError for a file that cannot be read; std::runtime_error when there is
/// no noise in it, or noise readouts differ in their number of channels.
void noise(const NoiseOptions& options, std::ostream& out);

}  // namespace echotrain::client
