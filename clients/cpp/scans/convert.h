// `echotrain convert`: a stream file (or pipe) to an ISMRMRD HDF5 file, or back.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

#include "config/option.h"

namespace echotrain::client {

struct ConvertOptions {
  std::filesystem::path input, output;  ///< the one that is a stream may be "-": stdin, stdout
  std::string config;             ///< configuration at the start of a stream: a name, or a .yaml file; empty for none
  std::string group = "dataset";  ///< group in the HDF5 file
};

config::OptionTable<ConvertOptions> convert_options();

/// HDF5 to stream: configuration (if wanted), header, readouts with the waveforms between them by time stamp, images,
/// CLOSE. Stream to HDF5: the same, but messages that HDF5 has no place for are only counted. A summary goes to `out`,
/// or to `err` when the stream goes to stdout. A stream that ends inside a message gives a file with everything before
/// it, and a warning. So do bytes that are no message, with exit code 1.
int convert(const ConvertOptions& options, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
