// The plugin ABI's name says what plugins must have been compiled for.
#pragma once

#include <string_view>

namespace echotrain::server {

/// Returns the name (see gadgets/api/plugin_abi.h). It changes with each line of the gadget API: its source includes
/// nothing else.
std::string_view plugin_abi();

}  // namespace echotrain::server
