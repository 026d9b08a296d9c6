// The server's options file, and the same text as values on the command line.
#include "config/server_options.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/server_option.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echotrain;
  static fuzz::ScratchFile file;
  file.fill(fuzz::as_bytes(data, size));
  try {
    const config::ServerOptions options = config::read_server_options_file(file.path());
    fuzz::require(options.port >= 0 && options.port <= 65535 && options.max_sessions >= 1, "an option out of range");
  } catch (const config::ConfigError& error) {
    fuzz::require(error.what()[0] != 0, "an error without a reason");
  }
  // --NAME=VALUE, one per line.
  config::ServerOptions options;
  std::string_view rest = fuzz::as_text(data, size);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::size_t colon = std::min(line.find(':'), line.size());
    try {
      set_option(options, line.substr(0, colon), std::string(line.substr(std::min(colon + 1, line.size()))));
    } catch (const config::ConfigError& error) {
      fuzz::require(error.what()[0] != 0, "an error without a reason");
    }
  }
  return 0;
}
