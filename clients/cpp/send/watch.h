// The command `echotrain watch` shows a server's scans in the terminal, for those who have no browser.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "config/option.h"

namespace echotrain::client {

struct WatchOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 9004;  ///< the server's admin port
  double interval_s = 1;
  bool once = false;
  std::string token_file;  ///< its first line is shown to a server that asks for a token
  double timeout_s = 5;
};

config::OptionTable<WatchOptions> watch_options();

/// Prints the sessions, the delays of the last minute and a coarse picture of the newest image, again and again until
/// the program is stopped, or once. Where `out` is a terminal (`clear`), each replaces the one before. Returns 0;
/// throws ConnectionError when the server does not answer or does not let this look.
int watch(const WatchOptions& options, std::ostream& out, bool clear);

/// Returns what watch() prints: `state` is the JSON of /live/state, `image` the answer of /live/image, or empty.
std::string watch_text(const std::string& state, const std::string& image);

}  // namespace echotrain::client
