// `echotrain info`: what an ISMRMRD file holds.
#pragma once

#include <filesystem>
#include <iosfwd>

namespace echotrain::client {

/// Prints groups, header facts, counts of readouts by kind, trajectory range, flags and image series. A header that
/// does not pass the server's checks is reported as such. protocol::DatasetError for a file that cannot be read.
void info(const std::filesystem::path& file, std::ostream& out);

}  // namespace echotrain::client
