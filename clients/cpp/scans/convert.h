// The command `echotrain convert` makes an ISMRMRD HDF5 file, a stream of messages or an MRD 2 stream from any of them
// or from raw data of a Siemens scanner.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

#include "clients/cpp/base/scan_file.h"
#include "config/option.h"

namespace echotrain::client {

struct ConvertOptions {
  std::filesystem::path input, output;  ///< "-": stdin, stdout (streams only)
  std::string to = "auto";              ///< "hdf5", "stream" or "mrd2"; "auto": a stream of an HDF5 file, else HDF5
  std::string config;             ///< configuration at the start of a stream: a name, or a .yaml file; empty for none
  std::string group = "dataset";  ///< group in the HDF5 file
  MeasurementChoice choice;
};

config::OptionTable<ConvertOptions> convert_options();

/// The first bytes tell what the input is. To a stream: configuration (if wanted), header, readouts with the waveforms
/// between them by time stamp, images, CLOSE; MRD 2 likewise, without configuration. Messages that the output cannot
/// hold are left out and counted. A summary goes to `out`, or to `err` when a stream goes to stdout. A stream that ends
/// inside a message gives everything before it, and a warning. Bytes that are no message do the same, with exit code 1.
int convert(const ConvertOptions& options, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
