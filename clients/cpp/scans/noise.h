// The command `echotrain noise` reports the noise of a scan's coils, from its noise readouts.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

#include "clients/cpp/connection/server_connection.h"
#include "config/option.h"

namespace echotrain::client {

struct NoiseOptions {
  std::filesystem::path input;  ///< empty: ask a server
  std::string server, id;       ///< "host:port", and the measurement ID of a noise scan
  bool tls = false;
  TlsSettings tls_settings;
  double timeout_s = 10;  ///< for the server's answer
  bool json = false;
  double correlation = 0.3;  ///< pairs of coils above it are listed
};

config::OptionTable<NoiseOptions> noise_options();

/// Prints, for each group of the file that has noise readouts, a line per coil: its number, its label, the standard
/// deviation of its noise's real part in the unit of the readouts, and that over the coils' median; then pairs of coils
/// whose noise is correlated. Throws protocol::DatasetError for a file that cannot be read; std::runtime_error when
/// there is no noise in it, or noise readouts differ in their number of channels. With a server, prints the same of the
/// noise that it keeps of a measurement; throws ConnectionError when it does not answer, std::runtime_error when it
/// keeps none. Throws UsageError when neither or both of a file and a server are given.
void noise(const NoiseOptions& options, std::ostream& out);

}  // namespace echotrain::client
