// A server option is set as a command line sets it.
#pragma once

#include <string>
#include <string_view>

#include "config/server_options.h"

namespace echotrain {

/// Sets an option. `name` is the table's name or the flag. Throws ConfigError when there is none, or the text does not
/// fit it.
inline void set_option(config::ServerOptions& options, std::string_view name, const std::string& text) {
  const auto* option = config::server_option_table().find(name);
  if (option == nullptr) throw config::ConfigError({"command line", 0, 0}, "unknown option");
  option->set(options, config::Node::scalar({option->flag(), 0, 0}, text, false));
}

}  // namespace echotrain
