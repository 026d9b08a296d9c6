// `echotrain convert`: a stream file (or pipe) to an ISMRMRD HDF5 file, or back.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

namespace echotrain::client {

struct ConvertOptions {
  std::filesystem::path input, output;  ///< the one that is a stream may be "-": stdin, stdout
  std::string config;                   ///< to begin a stream with: a name, or a .yaml file; empty for none
  std::string group = "dataset";        ///< of the HDF5 file
};

/// HDF5 to stream: configuration (if wanted), header, readouts with the waveforms between them by time stamp, images,
/// CLOSE. Stream to HDF5: all of these but what HDF5 has no place for, which is counted. What was done goes to `out`,
/// or to `err` when the stream goes to stdout. A stream that ends inside a message gives a file with all before, and a
/// warning; so does one that goes on with what is no message, with exit code 1.
int convert(const ConvertOptions& options, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
