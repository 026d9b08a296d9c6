// The command `echotrain info` lists the contents of a file: ISMRMRD HDF5, or raw data of a Siemens scanner.
#pragma once

#include <filesystem>
#include <iosfwd>

#include "config/option.h"

namespace echotrain::client {

struct InfoOptions {
  std::filesystem::path input;
  bool json = false;
};

config::OptionTable<InfoOptions> info_options();

/// Prints groups or measurements, header facts, counts of readouts by kind, trajectory range, flags and image series. A
/// header that does not pass the server's checks is reported as such. Throws protocol::DatasetError for a file that
/// cannot be read.
void info(const InfoOptions& options, std::ostream& out);

}  // namespace echotrain::client
