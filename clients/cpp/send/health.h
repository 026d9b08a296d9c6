// The command `echotrain health` says whether a server takes scans, for containers and scripts without an HTTP client.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "config/option.h"

namespace echotrain::client {

struct HealthOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 9004;  ///< the server's admin port
  std::string path = "/readyz";
  double timeout_s = 3;
  bool json = false;
  double wait_s = 0;  ///< how long to ask again until the answer is 200; 0: asks once
};

config::OptionTable<HealthOptions> health_options();

/// Asks the admin port and prints its answer, the last one where it asks several times. Returns 0 for status 200, 1 for
/// any other. Throws ConnectionError when it does not answer; std::runtime_error, at once, when what answers is no
/// admin port.
int health(const HealthOptions& options, std::ostream& out);

}  // namespace echotrain::client
